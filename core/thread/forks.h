// Forks: what a forked process may still do with the core.
//
// A child has a copy of the parent's memory, and only the thread that forked. Two things follow. The pools must forget
// the threads that they had: `in_child` registers a function for that, which may take no lock of the core's. And if
// other threads were running steps, any lock may have been held at that moment: it will never be released in the child,
// which would wait for ever. Such a child gets a clear error from `check` instead, before it takes any lock; a child of
// a process that ran no step at that moment works.
//
// Thread-safe; `check` is one load.
#pragma once

#include <atomic>

namespace thalweg {

class Forks {
 public:
  // A step begins, and ends.
  static void step_begins() { running_.fetch_add(1, std::memory_order_relaxed); }
  static void step_ends() { running_.fetch_sub(1, std::memory_order_relaxed); }
  // Throws FailedPrecondition in a child of a process that was running steps.
  static void check() {
    if (broken_.load(std::memory_order_relaxed)) [[unlikely]]
      refuse();
  }
  // Calls `reset` in every child from now on, on its only thread.
  static void in_child(void (*reset)());

 private:
  [[noreturn]] static void refuse();
  static void judge();

  static std::atomic<int> running_;
  static std::atomic<bool> broken_;
  static const bool watching_;
};

}  // namespace thalweg
