// Spin: a thread that expects a message within microseconds looks for it a few times before it sleeps.
//
// On an idle core, waking a thread takes longer than the message itself. One thread of the process does so at a time,
// for a short while, only if the machine has several cores, and gives its core away between two looks: as soon as
// others need it, it stops.
#pragma once

#include <atomic>
#include <chrono>

namespace thalweg::net {

class Spin {
 public:
  // The process's own.
  static Spin& shared();

  // The right to spin, if no thread has it; given back by `end`. A thread of the poller gives it up for one that waits
  // for a step.
  bool begin() { return allowed_ && wanted_.load() == 0 && !busy_.exchange(true); }
  bool begin_for_step();
  void end() { busy_.store(false); }
  // Whether a thread of the poller is to give the right up.
  bool is_wanted() const { return wanted_.load(std::memory_order_relaxed) > 0; }

  // One thread's turn, from the first look on.
  class Turn {
   public:
    Turn() : until_(Clock::now() + kTime) {}
    // Gives the core away for a moment; false when it is time to sleep.
    bool pause();
    // Something has come: the time begins again.
    void progress() { until_ = Clock::now() + kTime; }

   private:
    using Clock = std::chrono::steady_clock;
    static constexpr std::chrono::microseconds kTime{60};
    static constexpr std::chrono::microseconds kTaken{40};  // by others, while this thread gave its core away
    Clock::time_point until_;
  };

 private:
  Spin();
  bool allowed_;
  std::atomic<bool> busy_{false};
  std::atomic<int> wanted_{0};
};

}  // namespace thalweg::net
