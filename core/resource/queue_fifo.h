// FifoQueue: first in, first out.
#pragma once

#include <deque>

#include "resource/queue.h"

namespace thalweg {

class FifoQueue : public Queue {
 public:
  using Queue::Queue;
  const char* kind() const override { return "FIFOQueue"; }

 protected:
  int64_t count() const override { return static_cast<int64_t>(elements_.size()); }
  void put(Tuple tuple) override { elements_.push_back(std::move(tuple)); }
  Tuple take() override {
    Tuple first = std::move(elements_.front());
    elements_.pop_front();
    return first;
  }
  const Tuple* coming(int64_t others) const override {
    return others < count() ? &elements_[static_cast<size_t>(others)] : nullptr;
  }
  void put_back(std::vector<Tuple> tuples) override {
    for (size_t i = tuples.size(); i-- > 0;) elements_.push_front(std::move(tuples[i]));
  }

 private:
  std::deque<Tuple> elements_;
};

}  // namespace thalweg
