// EmitterAvx512: vectors of 64 bytes in 32 registers, for streams.
//
// Truth values are bits in the mask registers 1 to 7 where comparisons leave them and selections read them. Wherever
// else they are read, and where there are not enough mask registers, they are vectors as in AVX2's code. All lanes of a
// list have one width.
#pragma once

#include "code/emitter.h"

namespace thalweg::code {

class EmitterAvx512 : public Emitter {
 public:
  static constexpr int kRegisters = 32, kBytes = 64;

  // `wide`: lanes have 64 bits.
  EmitterAvx512(std::vector<Instruction> list, std::span<const int> roots, int first_slot, bool wide)
      : Emitter(std::move(list), {}, roots, first_slot, kRegisters, kBytes), wide_(wide), masks_(list_.size()) {}

  using Emitter::translate;
  void forget() override;
  void store_as(Memory type, bool wide, int reg, const Operand& to, int scratch, int other) override;

 private:
  static constexpr int kMasks = 8;

  void write(const Vex& op, int target, int left, const Operand& right) override { out_.evex(op, target, left, right); }
  bool translate(const Instruction& i) override;
  void materialize(int truth) override;
  bool compare(const Instruction& i);
  bool combine(const Instruction& i);
  void select(const Instruction& i);
  bool convert(const Instruction& i);
  // The mask register that the truth value is in now.
  int in_mask(int truth);
  int free_mask();
  void hold_mask(int mask, int truth);
  // A mask register for the result.
  int result_mask();

  const bool wide_;
  std::vector<int8_t> masks_;     // the mask register of each value, or 0
  int holds_truth_[kMasks] = {};  // the value in each of them, plus one
};

}  // namespace thalweg::code
