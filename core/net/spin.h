// Spin: a thread that expects a message within microseconds looks for it a few times before it sleeps.
//
// On an idle core, waking a thread takes longer than the message itself. One thread of the process does so at a time,
// for a short while, only if the machine has several cores, and gives its core away between two looks: as soon as
// others need it, it stops, and no thread of the process spins for a while: for longer each time.
#pragma once

#include <atomic>
#include <chrono>

namespace thalweg::net {

class Spin {
  using Clock = std::chrono::steady_clock;

 public:
  // The process's own.
  static Spin& shared();

  // The right to spin, if no thread has it; given back by `end`. A thread of the poller gives it up for one that waits
  // for a step.
  bool begin() { return is_allowed() && wanted_.load() == 0 && !busy_.exchange(true); }
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
    static constexpr std::chrono::microseconds kTime{60};
    static constexpr std::chrono::microseconds kTaken{40};   // by others, while this thread gave its core away
    static constexpr std::chrono::microseconds kSlice{700};  // likewise
    Clock::time_point until_;
  };

 private:
  Spin();
  bool is_allowed() const { return several_cores_ && Clock::now().time_since_epoch().count() >= not_before_.load(); }
  // Others need this core.
  void crowded(Clock::time_point now);

  bool several_cores_;
  std::atomic<Clock::rep> not_before_{0};
  std::atomic<Clock::rep> pause_{0};  // the last while without spinning
  std::atomic<bool> busy_{false};
  std::atomic<int> wanted_{0};
};

}  // namespace thalweg::net
