// Looking for messages without sleeping.
#include "net/spin.h"

#include <sched.h>

namespace thalweg::net {

Spin& Spin::shared() {
  static Spin* spin = new Spin;
  return *spin;
}

Spin::Spin() {
  cpu_set_t cores;
  allowed_ = sched_getaffinity(0, sizeof cores, &cores) == 0 && CPU_COUNT(&cores) > 1;
}

bool Spin::begin_for_step() {
  if (!allowed_) return false;
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
  return Clock::now() - before < kTaken;
}

}  // namespace thalweg::net
