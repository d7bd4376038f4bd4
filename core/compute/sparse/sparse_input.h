// A sparse value as kernels read it: three tensors, checked against each other, and positions in row-major order.
//
// Positions are numbers up to 2^63 - 1: the dense shape may be larger than any tensor.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernel/kernel.h"

namespace thalweg {

// Numbers as "[1,2]", for messages.
std::string listed(const int64_t* numbers, int64_t count);
inline std::string listed(const std::vector<int64_t>& numbers) {
  return listed(numbers.data(), static_cast<int64_t>(numbers.size()));
}
// Throws unless the sizes are a vector without negative ones, whose product an int64 holds.
std::vector<int64_t> checked_dense_shape(const Tensor& shape, std::string_view what);

// Throws for the first of `count` indices that lies outside of the shape.
void check_indices(const int64_t* indices, int64_t count, const std::vector<int64_t>& sizes, std::string_view what);

struct SparseInput {
  // Inputs `first` (indices [n, rank], int32 or int64), `first + 1` (values [n]) and `first + 2` (dense shape [rank]).
  // Throws if they do not fit each other, or for an index outside of the shape.
  SparseInput(Context& ctx, int first, std::string_view what = "input")
      : SparseInput(ctx.input(first), ctx.input(first + 1), ctx.input(first + 2), what) {}
  SparseInput(const Tensor& indices, const Tensor& values, const Tensor& dense_shape, std::string_view what);

  const int64_t* row(int64_t i) const { return indices + i * rank; }
  // The row-major number of each element in the whole, or in an array of some of its dimensions only.
  std::vector<int64_t> positions() const;
  std::vector<int64_t> positions(const std::vector<int64_t>& dimensions) const;

  int64_t count = 0, rank = 0;
  const int64_t* indices = nullptr;
  Tensor values;
  std::vector<int64_t> sizes;

 private:
  std::vector<int64_t> widened_;
};

// Where the k-th smallest of the numbers (>= 0) is; equal ones stay in their order. Empty if they are sorted already.
std::vector<uint32_t> sorting_order(const std::vector<int64_t>& numbers);

}  // namespace thalweg
