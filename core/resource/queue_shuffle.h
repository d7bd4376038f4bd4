// RandomShuffleQueue: elements leave in random order, and some always stay to be mixed with later ones.
//
// The order is a function of the seeds and of the enqueues and dequeues before: TensorFlow's, number for number.
#pragma once

#include "random/philox.h"
#include "resource/queue.h"

namespace thalweg {

class RandomShuffleQueue : public Queue {
 public:
  struct Shuffle {
    int64_t min_after_dequeue = 0;
    int64_t seed = 0, seed2 = 0;  // as declared; 0, 0: random seeds
    bool operator==(const Shuffle&) const = default;
  };
  RandomShuffleQueue(Options options, Shuffle shuffle, Philox generator)
      : Queue(std::move(options)), shuffle_(shuffle), random_(generator) {}
  const char* kind() const override { return "RandomShuffleQueue"; }
  const Shuffle& shuffle() const { return shuffle_; }

 protected:
  int64_t count() const override { return static_cast<int64_t>(elements_.size()); }
  int64_t available() const override { return is_closed() ? count() : count() - shuffle_.min_after_dequeue; }
  void put(Tuple tuple) override { elements_.push_back(std::move(tuple)); }
  Tuple take() override {
    size_t at = random_() % elements_.size();
    std::swap(elements_[at], elements_.back());
    Tuple chosen = std::move(elements_.back());
    elements_.pop_back();
    return chosen;
  }
  void put_back(std::vector<Tuple> tuples) override {
    for (size_t i = tuples.size(); i-- > 0;) elements_.push_back(std::move(tuples[i]));
  }

 private:
  const Shuffle shuffle_;
  PhiloxWords random_;
  std::vector<Tuple> elements_;
};

}  // namespace thalweg
