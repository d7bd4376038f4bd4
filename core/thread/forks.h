// Forks: what a forked process may still do with the core.
//
// A child has a copy of the parent's memory, and only the thread that forked. Two things follow. The pools must forget
// the threads that they had: `in_child` registers a function for that, which may take no lock of the core's. And if
// other threads were running steps, any lock may have been held at that moment: it will never be released in the child,
// which would wait for ever. Such a child gets a clear error from `check` instead, before it takes any lock; a child of
// a process that ran no step at that moment works.
//
// Thread-safe; `check` is one load, and a step pays for no locked instruction.
#pragma once

#include <atomic>

namespace thalweg {

class Forks {
 public:
  // Counts the running steps of a session, whose lock guards `begin` and `end`.
  class Steps {
   public:
    Steps();
    ~Steps();
    Steps(const Steps&) = delete;
    void begin() { ++running_; }
    void end() { --running_; }

   private:
    friend class Forks;
    int running_ = 0;
    Steps *before_ = nullptr, *after_ = nullptr;  // in the list of all
  };
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

  static std::atomic<bool> broken_;
  static const bool watching_;
};

}  // namespace thalweg
