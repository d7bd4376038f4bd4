// Looking for messages without sleeping.
#include "net/spin.h"

#include <sched.h>

#include <algorithm>

namespace thalweg::net {

Spin& Spin::shared() {
  static Spin* spin = new Spin;
  return *spin;
}

Spin::Spin() {
  cpu_set_t cores;
  several_cores_ = sched_getaffinity(0, sizeof cores, &cores) == 0 && CPU_COUNT(&cores) > 1;
}

bool Spin::begin_for_step() {
  if (!is_allowed()) return false;
  ++wanted_;
  bool has = !busy_.exchange(true);
  for (Turn turn; !has && turn.pause();) has = !busy_.exchange(true);
  --wanted_;
  return has;
}

bool Spin::Turn::pause() {
  const auto before = Clock::now();
  if (before >= until_) return false;
  sched_yield();
  const auto now = Clock::now();
  // Processes that spin, too, take microseconds, and others a whole slice of the scheduler.
  if (now - before >= kSlice) Spin::shared().crowded(now);
  return now - before < kTaken;
}

void Spin::crowded(Clock::time_point now) {
  constexpr Clock::duration shortest = std::chrono::milliseconds(1), longest = std::chrono::milliseconds(128);
  const Clock::time_point last(Clock::duration(not_before_.load()));
  const Clock::duration before(pause_.load());
  const Clock::duration pause = now - last > 8 * before ? shortest : std::min(2 * before, longest);
  pause_.store(pause.count());
  not_before_.store((now + pause).time_since_epoch().count());
}

}  // namespace thalweg::net
