// StepWaiter: how a thread waits for the end of a step over several tasks.
//
// If the step has been short lately, the thread reads from the step's connections itself for a while: what arrives, and
// what it makes possible, is handled without waking another thread. Otherwise, or when the step takes longer this time,
// it sleeps, and the poller's threads do the work. Only one step waits in this way at a time; a step or a call that
// begins meanwhile, and the heartbeats of the task, give the connections back to the poller, so that a kernel of the
// step that waits for either cannot wait in vain.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "net/runnable.h"

namespace thalweg::net {

class Task;

// What is known about how long a step takes; shared by all its runs.
class StepPace {
 public:
  bool is_short() const { return nanoseconds_.load(std::memory_order_relaxed) < kShort; }
  void took(std::chrono::nanoseconds time);

 private:
  static constexpr int64_t kShort = 300'000;
  std::atomic<int64_t> nanoseconds_{kShort};
};

class StepWaiter {
 public:
  // What the step's end is reported to.
  void ended(StepResult result);
  // Reads from connections until the step has ended or takes too long for that. Without Python's lock.
  void read(Task& task, int64_t step, const std::vector<std::shared_ptr<Connection>>& connections);
  // Sleeps; true when the step has ended.
  bool sleep(std::chrono::milliseconds most);
  // After the end.
  StepResult& result() { return *result_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<StepResult> result_;
  std::atomic<bool> has_ended_{false};
};

}  // namespace thalweg::net
