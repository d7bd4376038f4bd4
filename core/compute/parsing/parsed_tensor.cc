// The tensor in a TensorProto message.
#include "compute/parsing/parsed_tensor.h"

#include <cstring>

#include "compute/parsing/example_features.h"
#include "io/tensor_proto.h"

namespace thalweg {

Tensor parsed_tensor(std::string_view message, DType wanted, std::string_view what) {
  tensor_proto::Values values;
  require(tensor_proto::read(message, wanted, values), "Could not parse ", what, " as TensorProto: '", excerpt(message),
          "'");
  const auto dtype = static_cast<DType>(values.dtype <= 23 ? values.dtype : 0);
  require(dtype == wanted, "Type mismatch between parsed tensor (", list_name(dtype), ") and dtype (",
          list_name(wanted), ") of ", what);
  require(!values.unknown_rank, "Cannot parse tensor from proto: its rank is unknown");
  const Shape shape(values.dims);
  const std::string_view content = wanted == DType::string ? std::string_view() : values.content;
  if (!content.empty())
    require(content.size() / size_of(wanted) == static_cast<uint64_t>(shape.num_elements()) &&
                content.size() % size_of(wanted) == 0,
            "Cannot parse tensor from proto: a tensor of shape ", shape, " and type ", wanted, " needs ",
            shape.num_elements(), " elements of ", size_of(wanted), " bytes, got ", content.size(), " bytes");
  Tensor out(wanted, shape);
  if (content.empty()) {
    tensor_proto::fill(values, out);
  } else {
    std::memcpy(out.raw(), content.data(), content.size());
    if (wanted == DType::boolean)
      for (size_t i = 0; i < content.size(); ++i) out.flat<bool>()[i] = content[i] != 0;
  }
  return out;
}

}  // namespace thalweg
