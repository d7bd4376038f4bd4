// zeros and sum of tensors, for containers that add up gradients: TensorArray and TensorList.
#pragma once

#include "tensor/tensor.h"

namespace thalweg {

// Zeros; strings and handles are empty.
Tensor zeros(DType dtype, const Shape& shape);

// a + b for numbers of one type and shape, in the buffer of `a` if that is its only reference.
Tensor sum(Tensor a, const Tensor& b);

}  // namespace thalweg
