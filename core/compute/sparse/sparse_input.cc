// Checks the parts of sparse values, and sorts positions.
#include "compute/sparse/sparse_input.h"

#include <algorithm>
#include <limits>
#include <string>

namespace thalweg {
namespace {

// The text of an error is put together apart from the loop: nothing of it is computed on success.
[[noreturn, gnu::cold, gnu::noinline]] void refuse_index(const int64_t* index, int64_t i,
                                                         const std::vector<int64_t>& sizes, std::string_view what) {
  fail(Code::invalid_argument, what, ": indices[", i, "] = ", listed(index, static_cast<int64_t>(sizes.size())),
       " is out of bounds: need 0 <= index < ", listed(sizes));
}

// The number of the first index outside of the shape, or `count`. The compiler knows the rank, unless it is 0.
template <int kRank>
int64_t first_outside(const int64_t* indices, int64_t count, const std::vector<int64_t>& sizes) {
  const int64_t rank = kRank > 0 ? kRank : static_cast<int64_t>(sizes.size());
  for (int64_t i = 0; i < count; ++i) {
    bool outside = false;
    for (int64_t d = 0; d < rank; ++d)
      outside |= static_cast<uint64_t>(indices[i * rank + d]) >= static_cast<uint64_t>(sizes[d]);
    if (outside) [[unlikely]]
      return i;
  }
  return count;
}

}  // namespace

std::string listed(const int64_t* numbers, int64_t count) {
  std::string text = "[";
  for (int64_t d = 0; d < count; ++d) text += (d ? "," : "") + std::to_string(numbers[d]);
  return text + "]";
}

std::vector<int64_t> checked_dense_shape(const Tensor& shape, std::string_view what) {
  require(shape.rank() == 1, what, ": dense_shape must be a vector, got shape ", shape.shape());
  std::vector<int64_t> sizes = to_int64s(shape);
  int64_t product = 1;
  bool overflow = false, empty = false;
  for (int64_t size : sizes) {
    require(size >= 0, what, ": dense_shape has a negative dimension, ", size);
    empty |= size == 0;
    overflow |= __builtin_mul_overflow(product, size, &product);
  }
  require(empty || !overflow, what, ": dense_shape has more than 2^63-1 elements");
  return sizes;
}

SparseInput::SparseInput(const Tensor& at, const Tensor& elements, const Tensor& dense_shape, std::string_view what) {
  values = elements;
  require(at.rank() == 2, what, ": indices must be a matrix, got shape ", at.shape());
  require(values.rank() == 1, what, ": values must be a vector, got shape ", values.shape());
  sizes = checked_dense_shape(dense_shape, what);
  count = at.dim(0);
  rank = at.dim(1);
  require(count == values.dim(0), what, ": ", count, " indices for ", values.dim(0), " values");
  require(rank == static_cast<int64_t>(sizes.size()), what, ": indices have ", rank, " columns, dense_shape has ",
          sizes.size(), " elements");
  if (at.dtype() == DType::int64) {
    indices = at.flat<int64_t>();
  } else {
    widened_ = to_int64s(at.reshaped(Shape{at.num_elements()}));
    indices = widened_.data();
  }
  check_indices(indices, count, sizes, what);
}

void check_indices(const int64_t* indices, int64_t count, const std::vector<int64_t>& sizes, std::string_view what) {
  const int64_t first = sizes.size() == 2   ? first_outside<2>(indices, count, sizes)
                        : sizes.size() == 3 ? first_outside<3>(indices, count, sizes)
                                            : first_outside<0>(indices, count, sizes);
  if (first < count) refuse_index(indices + first * static_cast<int64_t>(sizes.size()), first, sizes, what);
}

std::vector<int64_t> SparseInput::positions() const {
  std::vector<int64_t> result(count);
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = 0;
    for (int64_t d = 0; d < rank; ++d) at = at * sizes[d] + row(i)[d];
    result[i] = at;
  }
  return result;
}

std::vector<int64_t> SparseInput::positions(const std::vector<int64_t>& dimensions) const {
  std::vector<int64_t> result(count);
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = 0;
    for (int64_t d : dimensions) at = at * sizes[d] + row(i)[d];
    result[i] = at;
  }
  return result;
}

std::vector<uint32_t> sorting_order(const std::vector<int64_t>& numbers) {
  if (std::is_sorted(numbers.begin(), numbers.end())) return {};
  const size_t n = numbers.size();
  require(n <= std::numeric_limits<uint32_t>::max(), "at most 2^32 - 1 elements can be sorted, got ", n);
  // By 11 bits at a time, from the lowest ones.
  constexpr int kBits = 11, kBuckets = 1 << kBits;
  struct Entry {
    int64_t number;
    uint32_t index;
  };
  const int64_t largest = *std::max_element(numbers.begin(), numbers.end());
  std::vector<Entry> entries(n), other(n);
  for (size_t i = 0; i < n; ++i) entries[i] = {numbers[i], static_cast<uint32_t>(i)};
  for (int shift = 0; shift < 63 && (largest >> shift) != 0; shift += kBits) {
    uint32_t starts[kBuckets] = {};
    for (const Entry& entry : entries) ++starts[(entry.number >> shift) & (kBuckets - 1)];
    uint32_t sum = 0;
    for (uint32_t& start : starts) sum += std::exchange(start, sum);
    for (const Entry& entry : entries) other[starts[(entry.number >> shift) & (kBuckets - 1)]++] = entry;
    entries.swap(other);
  }
  std::vector<uint32_t> order(n);
  for (size_t i = 0; i < n; ++i) order[i] = entries[i].index;
  return order;
}

}  // namespace thalweg
