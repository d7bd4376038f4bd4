// SeedGenerator: the random numbers of datasets: TensorFlow's, word for word, so that a seed gives its order of
// elements. A position is saved in three numbers.
#pragma once

#include <random>

#include "data/dataset.h"
#include "random/philox.h"

namespace thalweg {

class SeedGenerator {
 public:
  SeedGenerator(uint64_t seed, uint64_t seed2) : seed_(seed), seed2_(seed2), words_(Philox(seed, seed2)) {}
  uint32_t next() {
    ++drawn_;
    return words_();
  }
  // Uniform in [0, n), n > 0, but for the bias of a remainder.
  uint64_t below(uint64_t n) { return next() % n; }

  void save(StateWriter& out) const {
    for (uint64_t number : {seed_, seed2_, drawn_}) out.integer(static_cast<int64_t>(number));
  }
  void restore(StateReader& in) {
    for (uint64_t* number : {&seed_, &seed2_, &drawn_}) *number = static_cast<uint64_t>(in.integer());
    words_ = PhiloxWords(Philox(seed_, seed2_), drawn_);
  }

 private:
  uint64_t seed_, seed2_, drawn_ = 0;
  PhiloxWords words_;
};

// The two seeds of a node; (0, 0) asks for seeds that differ each time.
inline std::pair<uint64_t, uint64_t> seeds_input(Context& ctx, int first) {
  auto seed = static_cast<uint64_t>(int_input(ctx, first, "seed"));
  auto seed2 = static_cast<uint64_t>(int_input(ctx, first + 1, "seed2"));
  if (seed == 0 && seed2 == 0) {
    std::random_device device;
    seed = static_cast<uint64_t>(device()) << 32 | device();
    seed2 = static_cast<uint64_t>(device()) << 32 | device();
  }
  return {seed, seed2};
}

}  // namespace thalweg
