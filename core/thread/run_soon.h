// run_soon: continues work that an event has made possible, with as few wake-ups as can be.
//
// A thread that reads from the network opens a SoonScope while it handles what has arrived. Work that this makes
// possible (an executor whose missing tensor is there) waits until the scope ends, and then runs on the same thread:
// no other thread has to wake up first. Further pieces of work go to the pool. Without a scope all of it goes to the
// pool. A thread that waits for one step, and reads meanwhile, opens a scope for this step only: it must not be kept
// by the work of another one. Nothing runs inside of `run_soon` itself, so it may be called with locks held.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace thalweg {

// `step` is the number of the step whose work it is; 0 if it belongs to none.
void run_soon(int64_t step, std::function<void()> work);

// For work that `run_soon` has brought to a thread: it is about to take long. Whatever the thread does for others
// meanwhile (it may be the only one that reads from a connection) is given back to them.
void before_long_work();

// While it lives, `before_long_work` on this thread calls the function.
class LongWorkScope {
 public:
  explicit LongWorkScope(std::function<void()> give_back);
  ~LongWorkScope();
  LongWorkScope(const LongWorkScope&) = delete;

 private:
  friend void before_long_work();
  const std::function<void()> give_back_;
  LongWorkScope* const outer_;
};

class SoonScope {
 public:
  // `step`: takes only work of this step; 0 for any.
  explicit SoonScope(int64_t step = 0);
  // Runs the last piece of work on this thread and gives the others to the pool.
  ~SoonScope();
  SoonScope(const SoonScope&) = delete;

 private:
  friend void run_soon(int64_t step, std::function<void()> work);
  const int64_t step_;
  SoonScope* outer_;
  std::vector<std::function<void()>> work_;
};

}  // namespace thalweg
