// StepStats: an observer of a step: when each node ran and what it produced. A step without one pays one branch a node.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "executor/plan.h"

namespace thalweg {

struct NodeStats {
  std::string node;
  std::string op;
  int64_t start_ns = 0;  // since the epoch
  int64_t end_ns = 0;
  int64_t thread = 0;
  struct Output {
    int slot;
    DType dtype;
    std::vector<int64_t> shape;
    int64_t bytes;
  };
  std::vector<Output> outputs;
};

class StepStats {
 public:
  static int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
  void record(const NodeItem& node, const Tensor* outputs, int64_t start_ns, int64_t thread) {
    NodeStats stats{node.def.name, node.def.op, start_ns, now_ns(), thread, {}};
    for (int i = 0; i < node.num_outputs; ++i)
      if (outputs[i].defined())
        stats.outputs.push_back(
            {i, outputs[i].dtype(), outputs[i].shape().to_vector(), static_cast<int64_t>(outputs[i].bytes())});
    std::lock_guard lock(mutex_);
    nodes_.push_back(std::move(stats));
  }
  std::vector<NodeStats> take() {
    std::lock_guard lock(mutex_);
    return std::move(nodes_);
  }

 private:
  std::mutex mutex_;
  std::vector<NodeStats> nodes_;
};

}  // namespace thalweg
