// Elements in and out of batches: a tensor's rows as tensors of their own, and tensors as the rows of one.
#pragma once

#include "tensor/tensor.h"

namespace thalweg {

// An uninitialized tensor for `rows` elements of a shape.
inline Tensor new_batch(DType dtype, int64_t rows, const Shape& element) {
  return Tensor(dtype, element.inserted(0, rows));
}

// A copy of one row, so that it does not keep the rest of the batch alive; the batch itself if it has no other row.
inline Tensor take_row(const Tensor& batch, int64_t index) {
  Shape shape = batch.shape().removed(0);
  if (batch.dim(0) == 1) return batch.owned().reshaped(std::move(shape));
  Tensor row(batch.dtype(), std::move(shape));
  const size_t bytes = static_cast<size_t>(row.num_elements()) * size_of(batch.dtype());
  const char* from = static_cast<const char*>(batch.raw()) + static_cast<size_t>(index) * bytes;
  copy_elements(batch.dtype(), row.raw(), from, row.num_elements());
  return row;
}

// Copies an element into a row of the same size; moves its strings if the element holds the only reference.
inline void put_row(Tensor& batch, int64_t index, Tensor& element) {
  const int64_t count = element.num_elements();
  void* to = static_cast<char*>(batch.raw()) + static_cast<size_t>(index * count) * size_of(batch.dtype());
  if (batch.dtype() == DType::string && element.writable())
    std::move(element.strings(), element.strings() + count, static_cast<std::string*>(to));
  else
    copy_elements(batch.dtype(), to, element.raw(), count);
}

}  // namespace thalweg
