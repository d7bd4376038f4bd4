// RandomStreams: the places of seeded random ops in their streams, for one traversal of a dataset.
//
// A session keeps one kernel for each random op of a function, however many iterators call the function. The first use
// within a traversal starts the op's stream anew, so that every iterator over a dataset draws the same numbers, as
// every run of the program does. Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "random/philox.h"

namespace thalweg {

class RandomStreams {
 public:
  // The generator of op number `op`, which is then moved ahead by `blocks`; `start` at first.
  Philox reserve(uint64_t op, const Philox& start, uint64_t blocks) {
    std::lock_guard lock(mutex_);
    Philox& generator = generators_.try_emplace(op, start).first->second;
    Philox copy = generator;
    generator.skip(blocks);
    return copy;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<uint64_t, Philox> generators_;
};

}  // namespace thalweg
