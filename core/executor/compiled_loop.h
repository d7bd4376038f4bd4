// CompiledLoop: a lowered loop over scalars and small tensors as machine code (made by executor/loop_builder.h).
//
// Each value is one vector register or a few: a scalar is a vector with equal lanes. Results have the bits that the
// nodes give. The code stops for the step's cancellation now and then, and before an iteration that fails. Immutable;
// any number of steps may run it at once.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "code/loop_code.h"
#include "tensor/tensor.h"

namespace thalweg {

class Step;

// The element type and shape of a value, and the vectors that hold it.
struct LoopValue {
  DType dtype = DType::invalid;
  Shape shape;
  std::vector<int> vectors;  // numbers of instructions of the recording, or of parameters
  bool wide = false;         // of truth values: lanes of 64 bits
  // The conditionals in whose branches it is computed, from the outermost to the innermost: predicate, branch.
  std::vector<std::pair<int, bool>> branches;
  bool is_splat() const { return shape.num_elements() == 1; }
  // Whether its lanes have 64 bits.
  bool has_wide_lanes() const { return dtype == DType::boolean ? wide : size_of(dtype) == 8; }
};

class CompiledLoop {
 public:
  // Whether the code was made for such types and shapes.
  bool fits(std::span<const Tensor> variables, std::span<const Tensor> invariants) const;
  // Goes on with the loop. True if it has ended, with the final values in `variables`; false before an iteration that
  // fails. Throws if the step has been cancelled.
  bool run(std::span<Tensor> variables, std::span<const Tensor> invariants, Step& step) const;

 private:
  friend class LoopBuilder;
  std::vector<LoopValue> operands_;  // variables and invariants; vectors are numbers of slots
  size_t num_variables_ = 0;
  std::vector<std::pair<LoopValue, Tensor>> constants_;
  std::unique_ptr<code::LoopCode> code_;
};

}  // namespace thalweg
