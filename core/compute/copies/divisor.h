// Division of many numbers by one: a multiplication instead of each.
#pragma once

#include <bit>
#include <cstdint>

namespace thalweg {

// A divisor in [1, 2^63).
class Divisor {
 public:
  explicit Divisor(int64_t d) : d_(d), shift_(63 - std::countl_zero(static_cast<uint64_t>(2 * d - 1))) {
    // The next number above 2^(63 + shift) / d, whose relative error is below 2^-63.
    factor_ = static_cast<uint64_t>(((static_cast<unsigned __int128>(1) << (63 + shift_)) / d) + 1);
    if (shift_ == 0) factor_ = 0;
  }
  // n / d for n in [0, 2^63).
  int64_t quotient(int64_t n) const {
    if (shift_ == 0) return n;
    const auto product = static_cast<unsigned __int128>(factor_) * static_cast<uint64_t>(n);
    return static_cast<int64_t>(static_cast<uint64_t>(product >> 64) >> (shift_ - 1));
  }
  int64_t value() const { return d_; }

 private:
  int64_t d_;
  int shift_;  // the logarithm of d, rounded up
  uint64_t factor_;
};

}  // namespace thalweg
