// PriorityQueue: the element with the smallest priority, its first component, leaves first.
#pragma once

#include <algorithm>

#include "resource/queue.h"

namespace thalweg {

class PriorityQueue : public Queue {
 public:
  using Queue::Queue;
  const char* kind() const override { return "PriorityQueue"; }

 protected:
  int64_t count() const override { return static_cast<int64_t>(elements_.size()); }
  void put(Tuple tuple) override {
    elements_.push_back(std::move(tuple));
    std::push_heap(elements_.begin(), elements_.end(), leaves_later);
  }
  Tuple take() override {
    std::pop_heap(elements_.begin(), elements_.end(), leaves_later);
    Tuple first = std::move(elements_.back());
    elements_.pop_back();
    return first;
  }
  void put_back(std::vector<Tuple> tuples) override {
    for (Tuple& tuple : tuples) put(std::move(tuple));
  }
  void check_element(std::span<const Tensor> tuple) const override {
    require(tuple[0].rank() == 0,
            "Expected the priority element to be a scalar, but received shape: ", tuple[0].shape());
    Queue::check_element(tuple);
  }
  void check_batch(std::span<const Tensor> batch) const override {
    require(batch[0].rank() == 1,
            "Expected the priorities of a batch to be a vector, but received shape: ", batch[0].shape());
    Queue::check_batch(batch);
  }

 private:
  static bool leaves_later(const Tuple& a, const Tuple& b) { return a[0].flat<int64_t>()[0] > b[0].flat<int64_t>()[0]; }
  std::vector<Tuple> elements_;
};

}  // namespace thalweg
