// Broadcasting of any fixed number of operands: runs along the innermost dimension, and where each operand's starts.
#pragma once

#include <array>

#include "compute/elementwise/elementwise.h"
#include "kernel/kernel.h"

namespace thalweg {

// Walks N operands over the shape to which they all broadcast.
template <int N>
class BroadcastRows {
 public:
  // Throws if the shapes do not fit.
  explicit BroadcastRows(const std::array<const Shape*, N>& shapes) {
    shape_ = *shapes[0];
    for (int k = 1; k < N; ++k) shape_ = Broadcast(shape_, *shapes[k]).shape();
    for (int k = 0; k < N; ++k) {
      int missing = shape_.rank() - shapes[k]->rank();
      strides_[k].assign(shape_.rank(), 0);
      int64_t stride = 1;
      for (int d = shape_.rank() - 1; d >= missing; --d) {
        int64_t size = (*shapes[k])[d - missing];
        if (size != 1) strides_[k][d] = stride;
        stride *= size;
      }
    }
  }
  const Shape& shape() const { return shape_; }

  // Calls row(out_offset, offsets, strides, count); a stride is 0 or 1.
  template <typename Row>
  void run(const Row& row) const {
    int rank = shape_.rank(), last = rank - 1;
    int64_t inner = rank == 0 ? 1 : shape_[last];
    if (shape_.num_elements() == 0) return;
    std::array<int64_t, N> steps;
    for (int k = 0; k < N; ++k) steps[k] = rank == 0 ? 0 : strides_[k][last];
    parallel_for(shape_.num_elements() / inner, std::max<int64_t>(1, kElementGrain / inner),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t r = begin; r < end; ++r) {
                     std::array<int64_t, N> offsets{};
                     int64_t left = r;
                     for (int d = last - 1; d >= 0; --d) {
                       int64_t index = left % shape_[d];
                       left /= shape_[d];
                       for (int k = 0; k < N; ++k) offsets[k] += index * strides_[k][d];
                     }
                     row(r * inner, offsets, steps, inner);
                   }
                 });
  }

 private:
  Shape shape_;
  std::array<std::vector<int64_t>, N> strides_;
};

}  // namespace thalweg
