// Finding out whether the processor's counter is a clock, and how fast it runs.
#include "executor/trace_clock.h"

#include <time.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace thalweg {
namespace {

int64_t read(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * int64_t{1000000000} + t.tv_nsec;
}

bool counter_is_constant() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d >> 8 & 1) != 0;
#else
  return false;
#endif
}

// The counter and another clock at one instant: the pair whose readings lie closest together.
struct Pair {
  explicit Pair(clockid_t clock) {
    int64_t closest = INT64_MAX;
    for (int i = 0; i < 4; ++i) {
      const int64_t before = TraceClock::now();
      const int64_t time = read(clock);
      const int64_t after = TraceClock::now();
      if (after - before >= closest) continue;
      closest = after - before;
      ticks = before + closest / 2;
      nanoseconds = time;
    }
  }
  int64_t ticks = 0;
  int64_t nanoseconds = 0;
};

}  // namespace

const bool TraceClock::counts_ = counter_is_constant();

// When the program was loaded: the longer ago, the better the rate is known.
static const Pair kLoaded(CLOCK_MONOTONIC);

int64_t TraceClock::steady() { return read(CLOCK_MONOTONIC); }

TraceClock::Scale::Scale(int64_t offset) {
  const Pair now(CLOCK_REALTIME);
  ticks_ = now.ticks;
  epoch_ = now.nanoseconds + offset;
  rate_ = 1;
  if (!counts_) return;
  const Pair steady(CLOCK_MONOTONIC);
  const int64_t ticks = steady.ticks - kLoaded.ticks;
  if (ticks > 0) rate_ = static_cast<double>(steady.nanoseconds - kLoaded.nanoseconds) / static_cast<double>(ticks);
}

}  // namespace thalweg
