// What the kernels for matrices in batches share: their sizes, and the loop over a batch.
#pragma once

#include "compute/elementwise/elementwise.h"
#include "executor/interruptible.h"

namespace thalweg {

using Solvable = Join<WideFloats, Complexes>;

// The size of the square matrices in a tensor.
inline int64_t square_size(const Tensor& x) {
  require(x.rank() >= 2, "Input must have rank >= 2, got shape ", x.shape());
  const int64_t rows = x.dim(x.rank() - 2), columns = x.dim(x.rank() - 1);
  require(rows == columns, "Input matrices must be square, got ", rows, " != ", columns, " in shape ", x.shape());
  return rows;
}
inline Shape batch_of(const Tensor& x) { return Shape(std::vector<int64_t>(x.shape().begin(), x.shape().end() - 2)); }
inline Shape with_dims(const Shape& batch, std::initializer_list<int64_t> more) {
  std::vector<int64_t> dims = batch.to_vector();
  dims.insert(dims.end(), more);
  return Shape(dims);
}

// body(first, last) over matrices of a batch, each about `work` operations. A single one may use the threads itself.
template <typename Body>
void for_each_matrix(Context& ctx, int64_t batch, double work, const Body& body) {
  const Interruptible interruptible(ctx, (work + 100) * static_cast<double>(batch));
  if (batch == 1) return body(0, 1);  // Not within a loop: its own loops look at the step.
  parallel_for(batch, static_cast<int64_t>(std::clamp(65536.0 / (work + 100), 1.0, 1e6)), body);
}

}  // namespace thalweg
