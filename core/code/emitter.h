// Emitter: translates a straight list of instructions into machine code; values live in vector registers while they
// fit.
//
// The list is a copy of a recording's, in which the operands of an instruction precede it; code/stream_code.h and
// code/loop_code.h put the loops around it. Values that do not fit into registers go to slots of 32 bytes at r13, and
// come back when they are needed; the one that is needed last goes first. Constants are read from a pool that r12
// points to. Where there are more arrays than registers for their addresses, these are read from a table at r15 into
// rax. The code also changes rax, rcx and rdx only for integer products and quotients, conversions and calls; calls
// and blocks change all registers that the calling convention lets them.
#pragma once

#include <climits>
#include <vector>

#include "code/assembler.h"
#include "code/block.h"
#include "code/memory.h"

namespace thalweg::code {

class Emitter {
 public:
  static constexpr int kRegisters = 16;
  static constexpr Register kPool = r12, kSlots = r13, kTable = r15;

  // Instructions are translated if they compute one of the `roots`, which stay readable to the end, or may fail.
  // `first_slot` is the first that values may be put into.
  Emitter(std::vector<Instruction> list, const std::vector<Call>& calls, std::vector<Block> blocks,
          std::span<const int> roots, int first_slot);

  Assembler& out() { return out_; }
  const std::vector<Instruction>& list() const { return list_; }

  bool is_live(int value) const { return values_[value].live; }
  // Before the code of any instruction: the value is in memory from the beginning.
  void set_home(int value, const Operand& home) { values_[value].home = home; }
  // From here on the value is in this register all the time, and the register holds nothing else. Loads it.
  void pin(int value, int reg);
  // The register is not used by any instruction.
  void reserve(int reg) { pinned_[reg] = true; }

  // Translates the instructions [first, last). False if one of them cannot be.
  bool translate(int first, int last);
  // Stores a value that later instructions read to memory, and forgets its register.
  void retire(int value);
  // Forgets which values are in unpinned registers: at the head of a loop they are those of any iteration.
  void forget();
  // Where an instruction may read the value now.
  Operand operand(int value);
  // The register that the value is in now, loaded if necessary.
  int in_register(int value);
  void load(int reg, const Operand& from) { out_.vex({0, 1, 0x10}, reg, 0, from); }
  void store(int reg, const Operand& to) { out_.vex({0, 1, 0x11}, reg, 0, to); }
  // Stores the lanes, of 64 bits if `wide`, as elements of a type. Changes two registers that must be reserved.
  void store_as(Memory type, bool wide, int reg, const Operand& to, int scratch, int other);

  // The jumps that are taken if an integer's divisor is zero, or a block fails.
  const std::vector<size_t>& failures() const { return failures_; }
  int num_slots() const { return next_slot_; }
  // The bytes of the pool that r12 must point to.
  const std::vector<uint64_t>& pool() const { return pool_; }

 private:
  struct Value {
    std::vector<int> uses;  // positions, ascending
    bool live = false;
    int reg = -1;
    Operand home;  // no base: none
  };
  bool translate(const Instruction& i);
  void compute(const Vex& op, int left, const Operand& right);
  bool arithmetic(const Instruction& i);
  bool compare(const Instruction& i);
  bool convert(const Instruction& i);
  // Conversions of code/memory.h.
  bool widen(const Instruction& i);
  void fused(const Instruction& i);
  void product(const Instruction& i);
  void divide(const Instruction& i);
  void call(const Instruction& i);
  void run_block(const Instruction& i);
  // The first of the slots that the values lie in one behind the other, or -1.
  int row_of_slots(std::span<const int> values) const;
  // Before a call: stores what is needed later, and forgets all registers.
  void leave_registers();
  void invert(int reg);

  bool dies_now(int value) const;
  // A register for the result; the registers of operands that nothing reads later are free for it.
  int result();
  int free_register();
  void hold(int reg, int value);
  void drop(int reg);
  static Operand slot(int number) { return Operand::at(kSlots, kVectorBytes * number); }
  Operand new_slot() { return slot(next_slot_++); }
  // The place of a value in memory, for the very next instruction.
  Operand reach(const Operand& home);
  bool in_memory(int value) const { return values_[value].home.base >= 0; }
  bool is_locked(int value) const;

  std::vector<Instruction> list_;
  const std::vector<Call>& calls_;
  const std::vector<Block> blocks_;
  Assembler out_;
  std::vector<Value> values_;
  int holds_[kRegisters];
  bool pinned_[kRegisters] = {};
  int now_ = 0;
  int next_slot_;
  std::vector<uint64_t> pool_;
  std::vector<size_t> failures_;
};

}  // namespace thalweg::code
