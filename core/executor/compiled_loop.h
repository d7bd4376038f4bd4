// CompiledLoop: a lowered loop over scalars and small tensors as machine code; LoopBuilder makes it of the nodes.
//
// Each value is one vector register or a few: a scalar is a vector with equal lanes. Nodes are element-wise ops, casts,
// selections and constants on float32, float64, int32, int64 and bool, whose functors record their own instructions
// (kernel/registry.h); functions without instructions are called. Results have the bits that the nodes give. The
// shapes of the variables must stay the same from iteration to iteration. The code stops for the step's cancellation
// now and then, and before an iteration that fails. Immutable; any number of steps may run it at once.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "code/loop_code.h"
#include "code/recorded.h"
#include "executor/loop_program.h"
#include "kernel/registry.h"

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

class LoopBuilder {
 public:
  explicit LoopBuilder(const LoopProgram& program) : program_(program) {}
  // Null if a node, or an operand, is of another kind.
  std::unique_ptr<const CompiledLoop> compile(std::span<const Tensor> variables, std::span<const Tensor> invariants);

 private:
  using Operands = std::span<const LoopValue>;
  std::optional<LoopValue> parameter(const Tensor& like);
  std::optional<LoopValue> constant(const Tensor& value);
  // The results of a node; nothing if it has no instructions, or its operands are of different branches.
  std::vector<LoopValue> outputs(const NodeDef& def, Operands operands, Operands guards);
  std::vector<LoopValue> choose(Operands operands);
  std::optional<LoopValue> merge(Operands operands);
  // The result of a node; none if it has no instructions.
  std::optional<LoopValue> node(const NodeDef& def, Operands operands);
  std::optional<LoopValue> elementwise(const NodeDef& def, Operands operands);
  std::optional<LoopValue> fused(const NodeDef& def, Operands operands);
  std::optional<LoopValue> cast(const NodeDef& def, const LoopValue& from);
  std::optional<LoopValue> select(const NodeDef& def, Operands operands);
  LoopValue filled(DType dtype, const Shape& shape, int number);
  // Whether the instructions recorded since `first` may be applied to vectors of different lanes.
  bool are_lanewise(size_t first) const;

  const LoopProgram& program_;
  code::Recording recording_;
  int num_parameters_ = 0;
  std::vector<std::pair<LoopValue, Tensor>> constants_;
};

}  // namespace thalweg
