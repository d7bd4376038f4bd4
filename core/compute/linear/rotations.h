// Sequences of plane rotations of neighbouring lines, kept until there are many, and then applied panel by panel.
//
// A panel is some columns of all lines, without gaps: it stays in the cache while rotations run over its lines, each of
// which passes from one rotation to the next in registers. Results do not depend on the number of threads.
#pragma once

#include <cstdint>
#include <vector>

namespace thalweg::linear {

template <typename R>
class Rotations {
 public:
  // Of `count` lines of `length` elements of float or double at y.
  Rotations(R* y, int64_t count, int64_t length, bool parallel);

  // Lines i and i + 1 become c y[i] + s y[i + 1] and c y[i + 1] - s y[i]. Within a sweep, i goes up or down by one.
  void begin_sweep(int64_t first, bool up);
  void add(double c, double s) {
    cosines_and_sines_.push_back(static_cast<R>(c));
    cosines_and_sines_.push_back(static_cast<R>(s));
  }
  // Line i changes its sign, after all sweeps.
  void negate(int64_t i) { negated_.push_back(i); }
  // Applies what is left and writes the lines back in this order: line i was line order[i].
  void finish(const std::vector<int64_t>& order);

 private:
  struct Sweep {
    int64_t first;
    bool up;
    int64_t begin;  // Of its cosines and sines.
  };
  void apply();

  R* const y_;
  const int64_t count_, length_, panels_;
  const bool parallel_;
  std::vector<R> packed_;
  std::vector<R> cosines_and_sines_;
  std::vector<Sweep> sweeps_;
  std::vector<int64_t> negated_;
};

}  // namespace thalweg::linear
