// Traces of steps as Python sees them, and the times of a session's sampled steps.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <atomic>
#include <chrono>
#include <deque>

#include "executor/trace.h"

namespace thalweg {

void bind_trace(nanobind::module_& m);

// The nodes of a table from number `first` on: (device's number, caller, name, op, inputs, controls, names of the nodes
// that it replaces, their ops).
nanobind::list nodes_to_python(const NodeTable& nodes, size_t first);
// Labels for the nodes that have none yet: a list of (node, text, share) for each.
void label_from_python(NodeTable& nodes, nanobind::list labels);

// Times of nodes in the steps that are measured. Measuring costs time, so few steps are: every n-th, or ever fewer, so
// that the cost is a small part of the time. Thread-safe.
class Samples {
 public:
  using Clock = std::chrono::steady_clock;
  struct Times {
    static constexpr int64_t kRecent = 9;
    int64_t runs = 0;
    int64_t total = 0;  // nanoseconds
    int64_t least = INT64_MAX;
    int64_t steps = 0;                      // in which it ran
    int64_t step = -1;                      // the last of them
    std::array<int64_t, kRecent> recent{};  // mean time of a run in each of the last steps
    int64_t runs_in_step = 0;
    int64_t total_in_step = 0;
    // Of a run, over the last steps: a step that was preempted does not count.
    int64_t median() const;
  };
  // From now on, after so many steps: every n-th, the next first; 0: none; -1: ever fewer.
  void every(int64_t n, int64_t after) {
    count_.store(0, std::memory_order_relaxed);
    next_.store(n == 0 ? -1 : after, std::memory_order_relaxed);
    every_.store(n, std::memory_order_relaxed);
  }
  // Whether the step that is about to run is to be measured.
  bool due() {
    const int64_t n = every_.load(std::memory_order_relaxed);
    if (n == 0) return false;
    const int64_t step = count_.fetch_add(1, std::memory_order_relaxed);
    int64_t next = next_.load(std::memory_order_relaxed);
    if (next < 0 || step < next) return false;
    // While a step is measured, no other is.
    if (!next_.compare_exchange_strong(next, n > 0 ? next + n : INT64_MAX, std::memory_order_relaxed)) return false;
    if (n < 0) begin_ = Clock::now();
    return true;
  }
  // Takes in the step that was due, or goes on without it if it has failed.
  void add(NodeTable& nodes, const std::deque<StepStats>& stats);
  void skip() { plan_next(); }
  // By the numbers of nodes.
  std::map<int32_t, Times> times() const;

 private:
  void plan_next();

  std::atomic<int64_t> every_{0};
  std::atomic<int64_t> next_{-1};
  std::atomic<int64_t> count_{0};
  // Of the step that is being measured, and of the one before it; only the thread that measures touches them.
  Clock::time_point begin_{};
  Clock::time_point last_end_{};
  int64_t last_count_ = 0;
  mutable std::mutex mutex_;
  int64_t steps_ = 0;
  std::vector<Times> times_;  // by the numbers of nodes
};

}  // namespace thalweg
