// SerializeTensor and ParseTensor: tensors as TensorProto messages, byte for byte as TensorFlow writes them.
#include "compute/parsing/example_features.h"
#include "io/tensor_proto.h"
#include "io/wire.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

void serialize_tensor(Context& ctx) {
  const Tensor& in = ctx.input(0);
  require(in.dtype() != DType::resource && in.dtype() != DType::variant, "cannot serialize a tensor of type ",
          in.dtype());
  std::string shape, out;
  for (int64_t d : in.shape()) {
    std::string dim;
    if (d != 0) {
      wire::put_key(dim, 1, wire::Kind::varint);
      wire::put_varint(dim, static_cast<uint64_t>(d));
    }
    wire::put_bytes(shape, 2, dim);
  }
  wire::put_key(out, tensor_proto::kDtype, wire::Kind::varint);
  wire::put_varint(out, static_cast<uint64_t>(in.dtype()));
  wire::put_bytes(out, tensor_proto::kShape, shape);
  if (in.dtype() == DType::string) {
    for (int64_t i = 0; i < in.num_elements(); ++i) wire::put_bytes(out, tensor_proto::kStrings, in.strings()[i]);
  } else if (in.bytes() > 0) {
    wire::put_bytes(out, tensor_proto::kContent, {static_cast<const char*>(in.raw()), in.bytes()});
  }
  ctx.set_output(0, Tensor::scalar(std::move(out)));
}

void parse_tensor(Context& ctx) {
  const Tensor& serialized = ctx.input(0);
  require(serialized.rank() == 0, "Expected `serialized` to be a scalar, got shape: ", serialized.shape());
  const std::string& message = *serialized.strings();
  DType wanted = ctx.output_dtype(0);
  tensor_proto::Values parsed;
  require(tensor_proto::read(message, wanted, parsed), "Could not parse `serialized` as TensorProto: '",
          excerpt(message), "'");
  auto dtype = static_cast<DType>(parsed.dtype <= 23 ? parsed.dtype : 0);
  require(dtype == wanted, "Type mismatch between parsed tensor (", list_name(dtype), ") and dtype (",
          list_name(wanted), ")");
  require(!parsed.unknown_rank, "Cannot parse tensor from proto: its rank is unknown");
  Shape shape(parsed.dims);
  if (!parsed.content.empty() && wanted != DType::string)
    require(parsed.content.size() / size_of(wanted) == static_cast<uint64_t>(shape.num_elements()) &&
                parsed.content.size() % size_of(wanted) == 0,
            "Cannot parse tensor from proto: a tensor of shape ", shape, " and type ", wanted, " needs ",
            shape.num_elements(), " elements of ", size_of(wanted), " bytes, got ", parsed.content.size(), " bytes");
  Tensor& out = ctx.allocate(0, shape);
  if (!parsed.content.empty() && wanted != DType::string) {
    std::memcpy(out.raw(), parsed.content.data(), parsed.content.size());
    if (wanted == DType::boolean)
      for (size_t i = 0; i < parsed.content.size(); ++i) out.flat<bool>()[i] = parsed.content[i] != 0;
  } else {
    tensor_proto::fill(parsed, out);
  }
}

using Serializable = Join<Join<NumbersAndBool, Quantized>, Types<DType::string>>;
REGISTER(kernel("SerializeTensor").types("T", Serializable{}).function<serialize_tensor>());
REGISTER(kernel("ParseTensor").types("out_type", Serializable{}).function<parse_tensor>());

}  // namespace
}  // namespace thalweg
