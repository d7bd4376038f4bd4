// Traces of steps as Python sees them, and what a session's sampled steps have measured.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>

#include "executor/trace.h"

namespace thalweg {

void bind_trace(nanobind::module_& m);

// The nodes of a table from number `first` on: (device's number, caller, name, op, inputs, controls, names of the nodes
// that it stands for, their ops).
nanobind::list nodes_to_python(const NodeTable& nodes, size_t first);
// Labels for the nodes that have none yet: a list of (node, text, share) for each.
void label_from_python(NodeTable& nodes, nanobind::list labels);

// Times of nodes, added up over the steps that are measured: every n-th. Thread-safe.
class Samples {
 public:
  struct Times {
    int64_t runs = 0;
    int64_t total = 0;  // nanoseconds
    int64_t least = INT64_MAX;
  };
  // 0: none.
  void every(int64_t n) { every_.store(n, std::memory_order_relaxed); }
  // Whether the step that is about to run is to be measured.
  bool due() {
    const int64_t n = every_.load(std::memory_order_relaxed);
    return n != 0 && count_.fetch_add(1, std::memory_order_relaxed) % n == 0;
  }
  void add(const Trace& trace);
  // By the numbers of nodes.
  std::map<int32_t, Times> times() const;

 private:
  std::atomic<int64_t> every_{0};
  std::atomic<int64_t> count_{0};
  mutable std::mutex mutex_;
  std::map<int32_t, Times> times_;
};

}  // namespace thalweg
