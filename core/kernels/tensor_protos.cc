// SerializeTensor and ParseTensor: tensors as TensorProto messages, byte for byte as TensorFlow writes them.
#include "compute/parsing/parsed_tensor.h"
#include "io/tensor_proto.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

void serialize_tensor(Context& ctx) {
  const Tensor& in = ctx.input(0);
  require(in.dtype() != DType::resource && in.dtype() != DType::variant, "cannot serialize a tensor of type ",
          in.dtype());
  std::string out;
  tensor_proto::put_head(out, in.dtype(), {in.shape().begin(), in.shape().end()});
  if (in.dtype() == DType::string)
    for (int64_t i = 0; i < in.num_elements(); ++i) tensor_proto::put_string(out, in.strings()[i]);
  else
    tensor_proto::put_content(out, {static_cast<const char*>(in.raw()), in.bytes()});
  ctx.set_output(0, Tensor::scalar(std::move(out)));
}

void parse_tensor(Context& ctx) {
  const Tensor& serialized = ctx.input(0);
  require(serialized.rank() == 0, "Expected `serialized` to be a scalar, got shape: ", serialized.shape());
  ctx.set_output(0, parsed_tensor(*serialized.strings(), ctx.output_dtype(0), "`serialized`"));
}

using Serializable = Join<Join<NumbersAndBool, Quantized>, Types<DType::string>>;
REGISTER(kernel("SerializeTensor").types("T", Serializable{}).function<serialize_tensor>());
REGISTER(kernel("ParseTensor").types("out_type", Serializable{}).function<parse_tensor>());

}  // namespace
}  // namespace thalweg
