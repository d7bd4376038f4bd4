// Assembler: writes instructions of x86-64 with AVX2 and FMA, or AVX-512, as bytes.
//
// It knows the forms of VEX and EVEX instructions, by prefix, map and opcode, and the few others that loops need.
// Vector registers are numbers from 0 to 15, in EVEX instructions to 31; general ones are named.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace thalweg::code {

enum Register : int { rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15 };

// A vector register, or memory at [base + (index << scale) + offset].
struct Operand {
  int vector = -1;
  int base = -1, index = -1;
  int32_t offset = 0;
  int scale = 0;
  int pointer = -1;  // the base is rax, and must first be loaded from this pointer of a table (code/emitter.h)
  bool in_register() const { return vector >= 0; }
  static Operand of(int vector) { return {.vector = vector}; }
  static Operand at(int base, int32_t offset, int index = -1, int scale = 0) {
    return {.base = base, .index = index, .offset = offset, .scale = scale};
  }
};

// The constant parts of a VEX or EVEX instruction.
struct Vex {
  uint8_t prefix;  // 0: none, 1: 66, 2: F3, 3: F2
  uint8_t map;     // 1: 0F, 2: 0F38, 3: 0F3A
  uint8_t opcode;
  bool wide = false;  // W
  bool half = false;  // 128 bits; not in EVEX instructions, which have 512 here
};

class Assembler {
 public:
  void bytes(std::initializer_list<int> values) {
    for (int value : values) code_.push_back(static_cast<uint8_t>(value));
  }
  template <typename T>
  void immediate(T value) {
    const auto* from = reinterpret_cast<const uint8_t*>(&value);
    code_.insert(code_.end(), from, from + sizeof value);
  }

  // instruction target, left, right. Those with one operand have no left (0).
  void vex(const Vex& op, int target, int left, const Operand& right) {
    const int base = right.in_register() ? right.vector : right.base;
    const bool high_index = !right.in_register() && right.index >= 8;
    const int r = target < 8 ? 0x80 : 0, x = high_index ? 0 : 0x40, b = base < 8 ? 0x20 : 0;
    const int rest = (~left & 15) << 3 | (op.half ? 0 : 4) | op.prefix;
    if (op.map == 1 && !op.wide && x && b)
      bytes({0xc5, r | rest});
    else
      bytes({0xc4, r | x | b | op.map, (op.wide ? 0x80 : 0) | rest});
    bytes({op.opcode});
    place(target, right);
  }
  void vex(const Vex& op, int target, int left, const Operand& right, int byte) {
    vex(op, target, left, right);
    bytes({byte});
  }

  // The EVEX form, on vectors of 64 bytes. A target that is a mask register is its number. `mask`: the mask register
  // that says which lanes are written, or chosen.
  void evex(const Vex& op, int target, int left, const Operand& right, int mask = 0) {
    const bool in_register = right.in_register();
    const int base = in_register ? right.vector : right.base;
    const bool high = in_register ? right.vector >= 16 : right.index >= 8;
    const int r = (target & 8) ? 0 : 0x80, x = high ? 0 : 0x40, b = (base & 8) ? 0 : 0x20;
    const int high_target = (target & 16) ? 0 : 0x10, high_left = (left & 16) ? 0 : 8;
    bytes({0x62, r | x | b | high_target | op.map, (op.wide ? 0x80 : 0) | (~left & 15) << 3 | 4 | op.prefix,
           0x40 | high_left | mask, op.opcode});
    // Short offsets count vectors; only those that are 0 are used.
    place(target, right, right.offset == 0);
  }
  void evex(const Vex& op, int target, int left, const Operand& right, int mask, int byte) {
    evex(op, target, left, right, mask);
    bytes({byte});
  }

  // General registers, 64 bits.
  void load(Register to, const Operand& from) { plain(0x8b, to, from); }
  void store(Register from, const Operand& to) { plain(0x89, from, to); }
  void address(Register to, const Operand& of) { plain(0x8d, to, of); }
  void move(Register to, Register from) {
    bytes({0x48 | (from >= 8 ? 4 : 0) | (to >= 8), 0x89, 0xc0 | (from & 7) << 3 | (to & 7)});
  }
  void set(Register to, int64_t value) {
    bytes({0x48 | (to >= 8), 0xb8 | (to & 7)});
    immediate(value);
  }
  void push(Register r) {
    if (r >= 8) bytes({0x41});
    bytes({0x50 | (r & 7)});
  }
  void pop(Register r) {
    if (r >= 8) bytes({0x41});
    bytes({0x58 | (r & 7)});
  }
  void add(Register r, int32_t value) {
    bytes({0x48 | (r >= 8), 0x81, 0xc0 | (r & 7)});
    immediate(value);
  }
  void compare(Register a, const Operand& b) { plain(0x3b, a, b); }
  void compare(Register a, Register b) {
    bytes({0x48 | (b >= 8 ? 4 : 0) | (a >= 8), 0x39, 0xc0 | (b & 7) << 3 | (a & 7)});
  }

  // Jumps. A forward jump is given its target later.
  enum Condition : uint8_t { kNotBelow = 3, kZero = 4, kNotZero = 5, kAbove = 7, kNegative = 8, kNotNegative = 9 };
  size_t here() const { return code_.size(); }
  size_t jump(Condition condition) {
    bytes({0x0f, 0x80 | condition});
    immediate<int32_t>(0);
    return here();
  }
  size_t jump() {
    bytes({0xe9});
    immediate<int32_t>(0);
    return here();
  }
  void lands(size_t jump) { patch(jump, here()); }
  void jump_back(size_t target) { patch(jump(), target); }

  // A function that may change rbx, rbp and r12 to r15, and call others. `pool` becomes the address of the bytes that
  // `finish` puts behind the code.
  void begin_function(Register pool) {
    for (Register r : kSaved) push(r);
    bytes({0x48, 0x83, 0xec, 8});                                    // sub rsp, 8
    bytes({0x48 | (pool >= 8 ? 4 : 0), 0x8d, 5 | (pool & 7) << 3});  // lea pool, [rip + distance]
    immediate<int32_t>(0);
    pool_ = here();
  }
  void end_function() {
    bytes({0xc5, 0xf8, 0x77, 0x48, 0x83, 0xc4, 8});  // vzeroupper; add rsp, 8
    for (int i = 5; i >= 0; --i) pop(kSaved[i]);
    bytes({0xc3});
  }
  // The whole code, with the pool.
  const std::vector<uint8_t>& finish(const std::vector<uint64_t>& pool) {
    while (code_.size() % 64 != 0) code_.push_back(0xcc);
    lands(pool_);
    for (uint64_t word : pool) immediate(word);
    return code_;
  }

 private:
  void patch(size_t jump, size_t target) {
    const auto distance = static_cast<int32_t>(static_cast<int64_t>(target) - static_cast<int64_t>(jump));
    for (int i = 0; i < 4; ++i) code_[jump - 4 + i] = static_cast<uint8_t>(distance >> 8 * i);
  }
  void plain(int opcode, Register target, const Operand& memory) {
    bytes({0x48 | (target >= 8 ? 4 : 0) | (memory.index >= 8 ? 2 : 0) | (memory.base >= 8), opcode});
    place(target, memory);
  }
  // The bytes that say what the operands are.
  void place(int target, const Operand& right) { place(target, right, right.offset >= -128 && right.offset <= 127); }
  void place(int target, const Operand& right, bool is_short) {
    const int field = (target & 7) << 3;
    if (right.in_register()) return bytes({0xc0 | field | (right.vector & 7)});
    const int mode = is_short ? 0x40 : 0x80;
    if (right.index >= 0)
      bytes({mode | field | 4, right.scale << 6 | (right.index & 7) << 3 | (right.base & 7)});
    else if ((right.base & 7) == 4)
      bytes({mode | field | 4, 0x24});
    else
      bytes({mode | field | (right.base & 7)});
    if (is_short)
      immediate(static_cast<int8_t>(right.offset));
    else
      immediate(right.offset);
  }

  static constexpr Register kSaved[] = {rbx, rbp, r12, r13, r14, r15};
  std::vector<uint8_t> code_;
  size_t pool_ = 0;
};

}  // namespace thalweg::code
