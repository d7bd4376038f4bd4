// EmitterAvx2: vectors of 32 bytes in sixteen registers.
//
// Only it has what loops need besides: conversions of scalars, integer quotients, rows of arrays, calls and blocks.
// These change rax, rcx, rdx and rsi; calls and blocks change all registers that the calling convention lets them.
#pragma once

#include "code/emitter.h"

namespace thalweg::code {

class EmitterAvx2 : public Emitter {
 public:
  static constexpr int kRegisters = 16;

  EmitterAvx2(std::vector<Instruction> list, const std::vector<Call>& calls, std::vector<Block> blocks,
              std::span<const int> roots, int first_slot)
      : Emitter(std::move(list), std::move(blocks), roots, first_slot, kRegisters, kVectorBytes), calls_(calls) {}

  using Emitter::translate;
  void store_as(Memory type, bool wide, int reg, const Operand& to, int scratch, int other) override;
  // The jumps that are taken if an integer's divisor is zero, an array refuses an index, or a block fails.
  const std::vector<size_t>& failures() const { return failures_; }

 private:
  void write(const Vex& op, int target, int left, const Operand& right) override;
  bool translate(const Instruction& i) override;
  bool compare(const Instruction& i);
  bool convert(const Instruction& i);
  // Conversions of code/memory.h.
  bool widen(const Instruction& i);
  void product(const Instruction& i);
  void divide(const Instruction& i);
  void call(const Instruction& i);
  void run_block(const Instruction& i);
  void find_row(const Instruction& i);
  void use_row(const Instruction& i);
  // The first of the slots that the values lie in one behind the other, or -1.
  int row_of_slots(std::span<const int> values) const;
  // Before a call: stores what is needed later, and forgets all registers.
  void leave_registers();
  void invert(int reg);

  const std::vector<Call>& calls_;
  std::vector<size_t> failures_;
};

}  // namespace thalweg::code
