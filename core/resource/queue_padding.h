// PaddingFifoQueue: first in, first out, of elements that differ in size; a batch of them is padded with zeros.
#pragma once

#include <algorithm>

#include "resource/queue_fifo.h"

namespace thalweg {

class PaddingFifoQueue : public FifoQueue {
 public:
  using FifoQueue::FifoQueue;
  const char* kind() const override { return "PaddingFIFOQueue"; }

 protected:
  void check_stackable() const override {}
  Tuple stack(std::vector<Tuple> tuples) const override;
  Shape empty_shape(size_t component) const override {
    std::vector<int64_t> dims = options_.shapes[component].dims;
    std::replace(dims.begin(), dims.end(), int64_t{-1}, int64_t{0});
    return Shape(dims);
  }
};

}  // namespace thalweg
