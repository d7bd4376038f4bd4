// NumericCheck: finds the nodes of a step that make NaN or infinity out of finite inputs.
//
// It checks the step as it runs: every floating-point output once, when its node has run. A tensor that is not finite
// is remembered by the address of its elements, so that a node that only passes it on is not taken for its origin.
// Values that no node of the step made (feeds, constants, variables) are checked only when a value computed from them
// is not finite. A fused node is run again, op by op, on its inputs, which are kept until then: such a node therefore
// never writes its output over an input.
//
// For the thread that drives the executor.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "kernel/kernel.h"

namespace thalweg {

class NumericCheck {
 public:
  // The inputs of a node that is about to run, as far as they may be checked later.
  struct Inputs {
    std::vector<Tensor> held;  // not defined where the node may overwrite the input
    bool finite = true;        // as far as is known
    size_t findings = 0;       // the number of findings before the node ran
  };
  struct Finding {
    const NodeDef* node;
    std::string what;  // "output 0, float32[2,3]: 1 NaN of 6 elements"
  };

  // Before and after a node has run on a kernel; `ctx` is null if that is asynchronous.
  Inputs before(const NodeDef& node, Kernel* kernel, const Tensor* inputs);
  void after(const NodeDef& node, Kernel* kernel, Context* ctx, Inputs inputs, const Tensor* outputs);
  // A value comes from the caller of the step.
  void fed(const Tensor& value);
  // A value comes from another device of the step, which has checked the node that made it.
  void received(const Tensor& value);

  const std::vector<Finding>& findings() const { return findings_; }

 private:
  // Whether the inputs were finite; notes the origin of an input that is not and that no node made.
  bool were_finite(const NodeDef& node, const Inputs& inputs);
  void note(const NodeDef& node, std::string what);
  // The memory is reused for a new tensor.
  void forget(const void* elements);
  // Finds the op of a fused node that made the first such value; false if the node is not a fused one.
  bool look_at_parts(const NodeDef& node, Kernel* kernel, Context* ctx, Inputs& inputs);

  // By the addresses of their elements:
  std::unordered_set<const void*> not_finite_;             // of known origin
  std::unordered_set<const void*> fed_;                    // not finite, and made by no node
  std::unordered_map<const void*, const NodeDef*> reads_;  // values of variables, not checked yet
  std::vector<Finding> findings_;
};

}  // namespace thalweg
