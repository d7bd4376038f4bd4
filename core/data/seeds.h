// SeedGenerator: the random numbers of datasets (xoshiro256**, Blackman and Vigna 2018): small, fast, and saved in four
// words.
#pragma once

#include <random>

#include "data/dataset.h"

namespace thalweg {

class SeedGenerator {
 public:
  SeedGenerator(uint64_t seed, uint64_t seed2) {
    // Splitmix spreads seeds that differ in a bit over the whole state.
    uint64_t x = seed * 0x9e3779b97f4a7c15u ^ seed2;
    for (uint64_t& word : state_) {
      x += 0x9e3779b97f4a7c15u;
      uint64_t z = x;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
      word = z ^ (z >> 31);
    }
  }
  uint64_t next() {
    auto rotated = [](uint64_t x, int k) { return (x << k) | (x >> (64 - k)); };
    const uint64_t result = rotated(state_[1] * 5, 7) * 9;
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = rotated(state_[3], 45);
    return result;
  }
  // Uniform in [0, n), n > 0; the bias is below n / 2^64.
  uint64_t below(uint64_t n) { return static_cast<uint64_t>((static_cast<unsigned __int128>(next()) * n) >> 64); }

  void save(StateWriter& out) const {
    for (uint64_t word : state_) out.integer(static_cast<int64_t>(word));
  }
  void restore(StateReader& in) {
    for (uint64_t& word : state_) word = static_cast<uint64_t>(in.integer());
  }

 private:
  uint64_t state_[4];
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
