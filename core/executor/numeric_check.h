// NumericCheck: finds the nodes of a step that make NaN or infinity out of finite inputs.
//
// Every floating-point output is looked at once, when its node has run, and remembered by its buffer, so that inputs
// need no second look, even where a kernel writes its output over them. What no node of the step made (feeds,
// constants) is looked at when it is first read. Thread-safe, for asynchronous kernels end on any thread.
#pragma once

#include <mutex>
#include <string>
#include <unordered_map>

#include "executor/plan.h"

namespace thalweg {

class NumericCheck {
 public:
  struct Inputs {
    bool finite = true;
    std::string from_outside;  // about an input that is not finite and that no node made
  };
  // Before a kernel runs.
  Inputs look_at_inputs(const NodeItem& node, const Tensor* inputs);
  // After it ran: what its outputs hold that is not finite ("output 0, float32[2,3]: 1 NaN, ..."), and empty if they
  // are finite.
  std::string look_at_outputs(const NodeItem& node, const Tensor* outputs);

 private:
  std::mutex mutex_;
  std::unordered_map<const void*, bool> finite_;  // by the address of the elements
};

}  // namespace thalweg
