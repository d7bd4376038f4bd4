// concatenate: tensors of one element type, one after the other in the memory of one.
#pragma once

#include <span>

#include "tensor/tensor.h"

namespace thalweg {

// Copies the elements of `values` into `out`, in parallel where it pays. Undefined values are left out; `starts` are
// the places in `out`, in elements, of each value.
void place(std::span<const Tensor> values, std::span<const int64_t> starts, Tensor& out);
// The same with each value directly after the one before; all are defined.
void concatenate(std::span<const Tensor> values, Tensor& out);

}  // namespace thalweg
