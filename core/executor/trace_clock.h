// TraceClock: the time, as cheaply as it can be read: the processor's counter where it runs at a constant rate (some
// ten nanoseconds), else the system's clock.
//
// Readings are ticks. A Scale turns them into nanoseconds since the epoch; take one after the readings.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace thalweg {

class TraceClock {
 public:
  static int64_t now() {
#if defined(__x86_64__)
    if (counts_) [[likely]]
      return static_cast<int64_t>(__rdtsc());
#endif
    return steady();
  }

  class Scale {
   public:
    // `offset`, in nanoseconds, is added to all times.
    explicit Scale(int64_t offset = 0);
    int64_t nanoseconds(int64_t ticks) const {
      return epoch_ + static_cast<int64_t>(static_cast<double>(ticks - ticks_) * rate_);
    }

   private:
    int64_t ticks_;
    int64_t epoch_;
    double rate_;  // nanoseconds per tick
  };

 private:
  static int64_t steady();
  static const bool counts_;
};

}  // namespace thalweg
