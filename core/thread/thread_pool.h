// A pool of threads for work that must not run on the caller: steps continued by a completed asynchronous kernel,
// partial runs, timers. Threads start when first needed; `submit` never blocks. The destructor runs all submitted work
// first.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "memory/account.h"

namespace thalweg {

class ThreadPool {
 public:
  explicit ThreadPool(int most) : most_(most) {}
  ~ThreadPool();
  // Throws Error, and forgets the work, if the pool has no thread and the system none left.
  void submit(std::function<void()> work);

  // The process's own pool. It grows to as many threads as there is work that blocks.
  static ThreadPool& shared();

 private:
  void loop();
  // In a forked child, which has none of the threads: begins anew, without the parent's work.
  void forget_threads();

  std::mutex mutex_;
  std::condition_variable wake_;
  struct Work {
    std::function<void()> run;
    Account* account;  // of the device whose kernel asked for it
  };
  std::deque<Work> work_;
  std::vector<std::thread> threads_;
  int idle_ = 0;
  int most_;
  bool ending_ = false;
};

// Runs a function at a time point, on one thread of its own. Cancelling waits for a function that is running.
class Timers {
 public:
  using Clock = std::chrono::steady_clock;
  static Timers& shared();
  int64_t at(Clock::time_point when, std::function<void()> work);
  void cancel(int64_t id);

 private:
  void loop();
  void forget_threads();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable finished_;
  std::multimap<Clock::time_point, std::pair<int64_t, std::function<void()>>> due_;
  int64_t next_ = 1;
  int64_t running_ = 0;
  bool started_ = false;
};

}  // namespace thalweg
