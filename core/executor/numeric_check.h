// NumericCheck: finds the nodes of a step that make NaN or infinity out of finite inputs.
//
// It looks at the step as it runs: every floating-point output once, when its node has run. What is not finite is
// remembered by the address of its elements, so that a node that only passes it on is not taken for its origin. Values
// that no node of the step made (feeds, constants, variables) are looked at only when something made of them is not
// finite. A node that stands for several is run again, one by one, on what it read, which is kept for it until then:
// such a node therefore never writes its output over an input.
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
  // What a node is about to read, as far as it may be asked about later.
  struct Inputs {
    std::vector<Tensor> held;  // not defined where the node may write over what another one made
    bool finite = true;        // as far as is known
    size_t findings = 0;       // that there were before
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
  // A value comes from another device of the step, which has looked at what made it.
  void received(const Tensor& value);

  const std::vector<Finding>& findings() const { return findings_; }

 private:
  // Whether the inputs were finite; if one was not that no node made, notes where it came from.
  bool were_finite(const NodeDef& node, const Inputs& inputs);
  void note(const NodeDef& node, std::string what);
  // The memory has a new tensor.
  void forget(const void* elements);
  // Finds the part of a node that made it; false if it has none.
  bool look_at_parts(const NodeDef& node, Kernel* kernel, Context* ctx, Inputs& inputs);

  // By the addresses of their elements:
  std::unordered_set<const void*> not_finite_;             // of known origin
  std::unordered_set<const void*> fed_;                    // not finite, and made by no node
  std::unordered_map<const void*, const NodeDef*> reads_;  // values of variables, not looked at yet
  std::vector<Finding> findings_;
};

}  // namespace thalweg
