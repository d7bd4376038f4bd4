// StepStats: an observer of a step: when each node ran, what it produced and, on request, which nodes produced the
// first NaN or infinity. A step without one pays one branch a node.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "executor/numeric_check.h"
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
  std::string not_finite;  // what is wrong with the outputs of a node whose inputs were finite
};

class StepStats {
 public:
  struct Options {
    bool timing = true;  // every node is recorded; otherwise only those with something to report
    bool numerics = false;
  };
  // What is known before a node runs and needed after it.
  struct Begun {
    int64_t start_ns = 0;
    NumericCheck::Inputs inputs;
  };

  explicit StepStats(Options options) : options_(options) {
    if (options.numerics) numerics_ = std::make_unique<NumericCheck>();
  }
  Begun begin(const NodeItem& node, const Tensor* inputs) {
    Begun begun{now_ns(), {}};
    if (numerics_) begun.inputs = numerics_->look_at_inputs(node, inputs);
    return begun;
  }
  void end(const NodeItem& node, const Tensor* outputs, const Begun& begun, int64_t thread) {
    std::string found = numerics_ ? numerics_->look_at_outputs(node, outputs) : std::string();
    if (!begun.inputs.finite) found = begun.inputs.from_outside;
    if (!options_.timing && found.empty()) return;
    NodeStats stats{node.def.name, node.def.op, begun.start_ns, now_ns(), thread, {}, std::move(found)};
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
  static int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  }

  Options options_;
  std::unique_ptr<NumericCheck> numerics_;
  std::mutex mutex_;
  std::vector<NodeStats> nodes_;
};

}  // namespace thalweg
