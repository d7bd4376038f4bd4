// CompiledLoop: a lowered loop over scalars and small tensors as machine code (made by executor/loop_builder.h).
//
// Each value is one vector register or a few: a scalar is a vector with equal lanes. Products and reductions are
// blocks: functions of whole values in memory, which may also read invariants that are too large for registers where
// they are. Results have the bits that the nodes give. The code stops for the step's cancellation now and then, and
// before an iteration that fails. Immutable; any number of steps may run it at once.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "code/loop_code.h"
#include "executor/loop_arrays.h"
#include "kernel/kernel.h"
#include "kernel/shaped_kernel.h"

namespace thalweg {

class Step;

// The element type and shape of a value, and the vectors that hold it.
struct LoopValue {
  DType dtype = DType::invalid;
  Shape shape;
  std::vector<int> vectors;  // numbers of instructions of the recording, or of parameters; none if it stays outside
  bool wide = false;         // of truth values: lanes of 64 bits
  // The conditionals in whose branches it is computed, from the outermost to the innermost: predicate, branch.
  std::vector<std::pair<int, bool>> branches;
  int pointer = code::kNone;  // outside of the loop's slots: the slot that has its address
  Tensor constant{};          // defined if it is known in advance
  bool is_outside() const { return pointer != code::kNone; }
  bool is_splat() const { return shape.num_elements() == 1; }
  // Whether its lanes have 64 bits.
  bool has_wide_lanes() const { return dtype == DType::boolean ? wide : size_of(dtype) == 8; }
};

// A function of whole values, and where they lie.
struct LoopBlock {
  static constexpr size_t kMostOperands = 8;
  ShapedWork work;
  std::unique_ptr<Kernel> kernel;  // of the work, if no node of the loop has it
  std::vector<int> pointers;       // per operand: the slot that has its address, or kNone
  std::vector<int> places;         // per operand, and of the result: the first slot
  int64_t count = 0;               // elements of the result
  bool wide = false;               // of 64 bits
  static int run(const void* block, void* slots) noexcept;
  // Of an element of a LoopArray; the operands are the array and the index, and for writing the element and the flow.
  static int read_array(const void* block, void* slots) noexcept;
  static int write_array(const void* block, void* slots) noexcept;
  int64_t element_bytes = 0;
};

class CompiledLoop {
 public:
  // Whether the code was made for such types and shapes.
  bool fits(std::span<const Tensor> variables, std::span<const Tensor> invariants) const;
  // Goes on with the loop. True if it has ended, with the final values in `variables`; false before an iteration that
  // fails, or if the arrays that the loop uses are not as they must be. Throws if the step has been cancelled.
  bool run(std::span<Tensor> variables, std::span<const Tensor> invariants, Step& step) const;

 private:
  friend class LoopBuilder;
  std::vector<LoopValue> operands_;  // variables and invariants; vectors are numbers of slots
  size_t num_variables_ = 0;
  std::vector<std::pair<LoopValue, Tensor>> constants_;
  std::vector<std::unique_ptr<LoopBlock>> blocks_;
  std::vector<LoopArrayUse> arrays_;
  std::unique_ptr<code::LoopCode> code_;
};

}  // namespace thalweg
