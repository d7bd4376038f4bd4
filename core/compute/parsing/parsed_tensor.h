// The tensor in a TensorProto message.
#pragma once

#include <string_view>

#include "tensor/tensor.h"

namespace thalweg {

// The tensor in a message whose bytes are not trusted. Throws unless it is well-formed and has type `wanted`; `what`
// names it in the error.
Tensor parsed_tensor(std::string_view message, DType wanted, std::string_view what);

}  // namespace thalweg
