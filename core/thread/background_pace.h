// BackgroundPace: keeps long work beside others from slowing them down.
//
// Work that calls rest() every now and then, with no lock held, takes a thirtieth of a core while somebody else is
// active, and a whole one otherwise: a program that waits for the work does not wait for pauses. In all, the pauses of
// one BackgroundPace take a minute at most.
//
// A lower priority of the thread would serve as well, if it held no locks: on a busy machine it would be put aside
// while others wait for them.
#pragma once

#include <chrono>
#include <functional>

namespace thalweg {

class BackgroundPace {
 public:
  // `is_active` says whether others have done something since it was last called.
  explicit BackgroundPace(std::function<bool()> is_active);
  // Sleeps if it is time to.
  void rest();

 private:
  using Clock = std::chrono::steady_clock;
  std::function<bool()> is_active_;
  std::chrono::nanoseconds worked_;  // processor time of this thread at the last rest
  std::chrono::nanoseconds left_ = std::chrono::minutes(1);
  Clock::time_point active_until_{};
};

}  // namespace thalweg
