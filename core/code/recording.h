// Recording: a straight list of instructions on vectors, from which machine code is made.
//
// A value is the number of the instruction that computes it. It has lanes of 32 bits or of 64, eight or four in loops
// (code/loop_code.h), as many as the processor's vectors have in streams (code/stream_code.h); a scalar is a vector
// with equal lanes ("splat"), so that scalars and vectors are computed by the same instructions. A truth value
// has all bits of its lane set, or none. Equal instructions on equal values are recorded once. The instructions are
// those that AVX2, AVX-512 and NEON have in common, give or take one instruction: a back end (code/emitter.h) needs to
// know nothing else. Not thread-safe.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace thalweg::code {

constexpr int kVectorBytes = 32;  // of loops

enum class Lane : uint8_t { float32, float64, int32, int64, truth };
constexpr bool is_float(Lane lane) { return lane == Lane::float32 || lane == Lane::float64; }
constexpr bool is_wide(Lane lane) { return lane == Lane::float64 || lane == Lane::int64; }

enum class Opcode : uint8_t {
  parameter,  // a vector that is given at run time; immediate: its number
  constant,   // splat; immediate: the bits of a lane
  add,
  sub,
  mul,      // of int64: only of splats
  div,      // floats
  lesser,   // a < b ? a : b
  greater,  // a > b ? a : b
  sqrt,
  fma,  // a * b + c, rounded once
  bit_and,
  bit_or,
  bit_xor,
  and_not,     // ~a & b
  compare,     // immediate: a Relation; a truth value
  select,      // a ? b : c
  shift_left,  // by the immediate
  shift_right,
  shift_right_signed,
  round,     // to an integer; immediate: a Rounding
  convert,   // from the lane of the immediate; between widths, and from and to int64, only splats
  quotient,  // of splat integers; immediate: a Division. A divisor of zero ends the run.
  remainder,
  call,   // immediate: a number of `calls`
  block,  // immediate: a number of `blocks` (code/block.h); has no value
  part,   // vector number `immediate` of the result of block a
  // Of ArrayRows (code/array_rows.h): a row, of an array whose address is in the slot of parameter a, by the splat b of
  // int32. Immediates tell uses apart. The run ends if the array refuses the index. The value is read by the two
  // others only:
  array_row,
  array_load,   // vector number `immediate` of row a, or its only element as a splat (kOneElement)
  array_store,  // b to that place
};
enum Relation : uint8_t { kLess, kLessEqual, kEqual, kNotEqual, kGreater, kGreaterEqual };
enum Rounding : uint8_t { kToEven, kDown, kUp, kToZero };
enum Division : uint8_t { kTruncated, kFloored };

constexpr int kNone = -1;
constexpr int64_t kOneElement = -1;

struct Instruction {
  Opcode op;
  Lane lane;  // of the operands of a comparison; of the result of all others
  int a = kNone, b = kNone, c = kNone;
  int64_t immediate = 0;
  bool operator==(const Instruction&) const = default;
};

// A function of rows of elements in memory (kernel/registry.h), for what has no instructions.
struct Call {
  const void* function;
  bool binary;
  int64_t count;          // elements of the result
  bool splat_a, splat_b;  // whether an operand is one element
  bool operator==(const Call&) const = default;
};

class Recording {
 public:
  int add(const Instruction& instruction);
  int parameter(int number, Lane lane) { return add({Opcode::parameter, lane, kNone, kNone, kNone, number}); }
  int constant(Lane lane, uint64_t bits) {
    return add({Opcode::constant, lane, kNone, kNone, kNone, static_cast<int64_t>(bits)});
  }
  int compare(Relation relation, Lane lane, int a, int b) {
    return add({Opcode::compare, lane, a, b, kNone, relation});
  }
  int select(Lane lane, int truth, int a, int b);
  // From here on integers are divided only where this truth value holds (kNone: always): elsewhere the divisor is 1, so
  // that no division by zero happens in the branch of a conditional that is not taken.
  void guard(int truth) { guard_ = truth; }
  int call(const Call& function, Lane lane, int a, int b = kNone);

  const std::vector<Instruction>& instructions() const { return instructions_; }
  const std::vector<Call>& calls() const { return calls_; }
  const Instruction& at(int value) const { return instructions_[value]; }

  // The recording that constants of Recorded (code/recorded.h) go to, on this thread.
  static Recording& current();

 private:
  friend class RecordingScope;
  struct Hash {
    size_t operator()(const Instruction& i) const;
  };
  std::vector<Instruction> instructions_;
  std::vector<Call> calls_;
  int guard_ = kNone;
  std::unordered_map<Instruction, int, Hash> known_;
};

// Makes a recording the current one.
class RecordingScope {
 public:
  explicit RecordingScope(Recording& recording);
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;

 private:
  Recording* before_;
};

}  // namespace thalweg::code
