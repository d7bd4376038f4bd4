// Emitter: translates a straight list of instructions into machine code; values live in vector registers while they
// fit.
//
// The list is a copy of a recording's, in which the operands of an instruction precede it; code/stream_code.h and
// code/loop_code.h put the loops around it. Values that do not fit into registers go to slots, as large as a vector, at
// r13, and come back when they are needed; the one that is needed last goes first. Constants are read from a pool that
// r12 points to. Where there are more arrays than registers for their addresses, these are read from a table at r15
// into rax. How vectors are large, and which instructions there are, is the affair of the classes derived from this
// one: code/emitter_avx2.h and code/emitter_avx512.h.
#pragma once

#include <climits>
#include <vector>

#include "code/assembler.h"
#include "code/block.h"
#include "code/memory.h"

namespace thalweg::code {

class Emitter {
 public:
  static constexpr Register kPool = r12, kSlots = r13, kTable = r15;

  virtual ~Emitter() = default;

  Assembler& out() { return out_; }
  const std::vector<Instruction>& list() const { return list_; }
  int vector_bytes() const { return vector_bytes_; }
  int num_registers() const { return static_cast<int>(holds_.size()); }

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
  virtual void forget();
  // Where an instruction may read the value now.
  Operand operand(int value);
  // The register that the value is in now, loaded if necessary.
  int in_register(int value);
  void load(int reg, const Operand& from) { write({0, 1, 0x10}, reg, 0, from); }
  void store(int reg, const Operand& to) { write({0, 1, 0x11}, reg, 0, to); }
  // Stores the lanes, of 64 bits if `wide`, as elements of a type. Changes two registers that must be reserved.
  virtual void store_as(Memory type, bool wide, int reg, const Operand& to, int scratch, int other) = 0;

  int num_slots() const { return next_slot_; }
  // The bytes of the pool that r12 must point to.
  const std::vector<uint64_t>& pool() const { return pool_; }

 protected:
  struct Value {
    std::vector<int> uses;  // positions, ascending
    bool live = false;
    int reg = -1;
    Operand home;  // no base: none
  };
  // Instructions are translated if they compute one of the `roots`, which stay readable to the end, or may fail.
  // `blocks` are those of the list. `first_slot` is the first that values may be put into.
  Emitter(std::vector<Instruction> list, std::vector<Block> blocks, std::span<const int> roots, int first_slot,
          int num_registers, int vector_bytes);

  // An instruction on whole vectors, in the form that the processor has for them. `op.wide` says that lanes have 64
  // bits.
  virtual void write(const Vex& op, int target, int left, const Operand& right) = 0;
  // What `arithmetic` does not do.
  virtual bool translate(const Instruction& i) = 0;
  // A value that is neither in a register nor in memory comes into a register.
  virtual void materialize(int) {}

  // Instructions that all processors have: arithmetic, bits, shifts, roots.
  bool arithmetic(const Instruction& i);
  void fused(const Instruction& i);
  void compute(const Vex& op, int left, const Operand& right) { write(op, result(), left, right); }

  bool dies_now(int value) const;
  // A register for the result; the registers of operands that nothing reads later are free for it.
  int result();
  int free_register();
  void hold(int reg, int value);
  void drop(int reg);
  Operand slot(int number) const { return Operand::at(kSlots, vector_bytes_ * number); }
  Operand new_slot() { return slot(next_slot_++); }
  bool is_locked(int value) const;  // an operand of the instruction that is translated
  bool in_memory(int value) const { return values_[value].home.base >= 0; }
  bool is_needed_later(int value) const { return !values_[value].uses.empty() && values_[value].uses.back() > now_; }

  std::vector<Instruction> list_;
  const std::vector<Block> blocks_;
  Assembler out_;
  std::vector<Value> values_;
  std::vector<int> holds_;  // the value in each register, or -1
  int now_ = 0;
  int next_slot_;
  std::vector<uint64_t> pool_;

 private:
  // The place of a value in memory, for the very next instruction.
  Operand reach(const Operand& home);
  // Whether the order of a float's operands makes no difference, not even to which of two NaNs is the result.
  bool is_number(int value) const;

  const int vector_bytes_;
  std::vector<char> pinned_;
};

}  // namespace thalweg::code
