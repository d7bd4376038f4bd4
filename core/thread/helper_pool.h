// HelperPool: threads that join a step for a while, to run some of its nodes beside the thread that has started it.
//
// Nodes of a step follow each other within microseconds, and waking a thread takes longer than many of them: a helper
// that has finished looks for more work for a while before it sleeps. `submit` never blocks. Work that waits for other
// work (a Python function, say) may be submitted: the pool grows while all its threads are busy.
//
// InterOpLimit: how many threads may run nodes at the same time: of all sessions of the process that share it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace thalweg {

class HelperPool {
 public:
  // Never destroyed: its threads may hold Python objects while the interpreter ends.
  static HelperPool& shared();
  void submit(std::function<void()> work);

 private:
  void loop();
  // In a forked child, which has none of the threads.
  void forget_threads();
  // Waits a moment for work without sleeping. Called with the lock, which it gives up meanwhile.
  void spin(std::unique_lock<std::mutex>& lock);

  std::atomic<int64_t> arrivals_{0};  // pieces of work so far; watched by spinning threads
  std::mutex mutex_;                  // guards everything below
  std::condition_variable wake_;
  std::deque<std::function<void()>> work_;
  int threads_ = 0, spinning_ = 0, sleeping_ = 0;
};

class InterOpLimit {
 public:
  explicit InterOpLimit(int most) : most_(most) {}
  // As many threads as there are cores.
  static const std::shared_ptr<InterOpLimit>& of_process();

  int most() const { return most_; }

  // A thread begins to run nodes, and ends. One that has to go on may exceed the limit for a while.
  void enter() { active_.fetch_add(1, std::memory_order_relaxed); }
  bool allows_another() const { return active_.load(std::memory_order_relaxed) < most_; }
  bool is_exceeded() const { return active_.load(std::memory_order_relaxed) > most_; }
  void leave() { active_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  const int most_;
  std::atomic<int> active_{0};
};

}  // namespace thalweg
