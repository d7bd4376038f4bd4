// Element-wise functions over eight float32 at once, in registers, for the machine code of fused chains.
//
// They are the functors of the kernels, so that a chain computes the same bits as its ops do one by one.
#pragma once

#include <string_view>

namespace thalweg {

using Vector8 = float __attribute__((vector_size(32)));

struct VectorFunction {
  Vector8 (*unary)(Vector8) = nullptr;
  Vector8 (*binary)(Vector8, Vector8) = nullptr;
};

// The vector form of an op; neither function is set if there is none.
VectorFunction vector_function(std::string_view op);

}  // namespace thalweg
