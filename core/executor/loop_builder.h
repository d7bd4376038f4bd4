// LoopBuilder: records the nodes of a lowered loop as instructions, and makes machine code of them.
//
// Nodes are element-wise ops, casts, selections and constants on float32, float64, int32, int64 and bool, whose
// functors record their own instructions (kernel/registry.h); functions without instructions are called. Products,
// reductions and whatever else can compute on plain memory (kernel/shaped_kernel.h) are blocks. Of a conditional both
// branches are computed, and the Merge selects. The shapes of the variables must stay the same from iteration to
// iteration.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "executor/compiled_loop.h"
#include "executor/loop_program.h"

namespace thalweg {

// The lanes that hold elements of a type, none for types that lanes do not hold; how many there are in a vector.
std::optional<code::Lane> lane_of(DType dtype);
int64_t lanes_of(const LoopValue& value);
// The vectors of a value with elements of this shape; zero if they are too many, or there are none.
size_t num_vectors(const Shape& shape, int64_t lanes);

class LoopBuilder {
 public:
  // The step is that of the run which compiles the loop.
  LoopBuilder(const LoopProgram& program, Step& step) : program_(program), step_(step) {}
  // Null if a node, or an operand, is of another kind.
  std::unique_ptr<const CompiledLoop> compile(std::span<const Tensor> variables, std::span<const Tensor> invariants);

 private:
  using Operands = std::span<const LoopValue>;
  std::optional<LoopValue> parameter(const Tensor& like);
  // A value that stays where it is: only blocks read it.
  LoopValue outside(const Tensor& like);
  std::optional<LoopValue> constant(const Tensor& value);
  // The results of a node; nothing if it has no instructions, or its operands are of different branches.
  std::vector<LoopValue> outputs(const NodeDef& def, const Kernel* kernel, Operands operands, Operands guards);
  std::vector<LoopValue> choose(Operands operands);
  std::optional<LoopValue> merge(Operands operands);
  // The result of a node; none if it has no instructions.
  std::optional<LoopValue> node(const NodeDef& def, const Kernel* kernel, Operands operands);
  // The result of a kernel on plain memory; `owned` is the kernel if no node of the loop has it.
  std::optional<LoopValue> shaped(const Kernel* kernel, DType dtype, Operands operands,
                                  std::unique_ptr<Kernel> owned = nullptr);
  // The result of a function of whole values.
  std::optional<LoopValue> block(std::unique_ptr<LoopBlock> block, const Shape& shape, DType dtype, Operands operands,
                                 int (*function)(const void*, void*) = &LoopBlock::run);
  // The result of a node that only moves elements.
  std::optional<LoopValue> rearranged(const NodeDef& def, const Kernel* kernel, Operands operands);
  // The elements of the operands, numbered from 1 on, in another order; 0 is a zero.
  std::optional<LoopValue> moved(Operands operands, const Shape& shape, std::span<const int64_t> from);
  // The operands in their common shape, scalars as they are.
  std::optional<std::vector<LoopValue>> broadcast(Operands operands);
  // Reading and writing TensorArrays.
  std::optional<LoopValue> array_node(const NodeDef& def, Operands operands);
  // The same by instructions of its own; none for elements that do not fill their last vector.
  std::optional<LoopValue> array_row(const LoopArrayUse& use, Operands operands);
  std::optional<LoopValue> reduced(const NodeDef& def, Operands operands);
  std::optional<LoopValue> elementwise(const NodeDef& def, Operands operands);
  std::optional<LoopValue> fused(const NodeDef& def, Operands operands);
  bool in_branch_ = false;
  std::optional<LoopValue> cast(const NodeDef& def, const LoopValue& from);
  std::optional<LoopValue> select(const NodeDef& def, Operands operands);
  LoopValue filled(DType dtype, const Shape& shape, int number);
  // Whether the instructions recorded since `first` may be applied to vectors of different lanes.
  bool are_lanewise(size_t first) const;

  const LoopProgram& program_;
  Step& step_;
  code::BlockRecording recording_;
  int num_parameters_ = 0;
  std::span<const Tensor> invariants_;
  size_t num_variables_ = 0;
  bool in_body_ = false;
  int64_t num_rows_ = 0;  // uses of arrays by `array_row`
  std::vector<LoopArrayUse> arrays_;
  std::vector<int> array_pointers_;  // of the arrays
  std::vector<std::pair<LoopValue, Tensor>> constants_;
  std::vector<std::unique_ptr<LoopBlock>> blocks_;
};

}  // namespace thalweg
