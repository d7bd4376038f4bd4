// The instructions of AVX-512 (F, BW, DQ, VL).
#include "code/emitter_avx512.h"

#include <algorithm>

namespace thalweg::code {
namespace {

bool is_integer(Lane lane) { return lane == Lane::int32 || lane == Lane::int64; }

}  // namespace

bool EmitterAvx512::translate(const Instruction& i) {
  const bool wide = is_wide(i.lane);
  switch (i.op) {
    case Opcode::compare:
      return compare(i);
    case Opcode::select:
      select(i);
      return true;
    case Opcode::bit_and:
    case Opcode::bit_or:
    case Opcode::bit_xor:
    case Opcode::and_not:
      return combine(i) || arithmetic(i);
    case Opcode::shift_left:
    case Opcode::shift_right:
    case Opcode::shift_right_signed: {
      const int from = in_register(i.a), to = result();
      const int kind = i.op == Opcode::shift_left ? 6 : i.op == Opcode::shift_right ? 2 : 4;
      const bool is_quad = wide && i.op != Opcode::shift_right_signed;
      out_.evex({1, 1, static_cast<uint8_t>(is_quad ? 0x73 : 0x72), wide}, kind, to, Operand::of(from), 0,
                static_cast<int>(i.immediate));
      return true;
    }
    case Opcode::round: {
      const Operand from = operand(i.a);
      const int to = result();
      // Bit 3: no exception for inexact results. The upper bits: no places behind the point.
      out_.evex({1, 3, static_cast<uint8_t>(wide ? 9 : 8), wide}, to, 0, from, 0, 8 | static_cast<int>(i.immediate));
      return true;
    }
    case Opcode::mul:
      return i.lane != Lane::int64 && arithmetic(i);
    case Opcode::convert:
      return convert(i);
    default:
      return arithmetic(i);
  }
}

bool EmitterAvx512::compare(const Instruction& i) {
  if (i.lane == Lane::truth) {
    if (i.immediate != kEqual && i.immediate != kNotEqual) return false;
    const int a = in_mask(i.a), b = in_mask(i.b);
    out_.vex({0, 1, static_cast<uint8_t>(i.immediate == kEqual ? 0x46 : 0x47)}, result_mask(), a, Operand::of(b));
    return true;
  }
  const bool wide = is_wide(i.lane);
  // Comparisons with NaN are false, except that it differs from everything.
  constexpr uint8_t kPredicates[] = {0x11, 0x12, 0x00, 0x04, 0x1e, 0x1d};
  constexpr uint8_t kOfIntegers[] = {1, 2, 0, 4, 6, 5};
  const Vex op = is_integer(i.lane) ? Vex{1, 3, 0x1f, wide} : Vex{static_cast<uint8_t>(wide), 1, 0xc2, wide};
  const int left = in_register(i.a);
  const Operand right = operand(i.b);
  out_.evex(op, result_mask(), left, right, 0, (is_integer(i.lane) ? kOfIntegers : kPredicates)[i.immediate]);
  return true;
}

// Truth values of which one is in a mask register.
bool EmitterAvx512::combine(const Instruction& i) {
  if (i.lane != Lane::truth || (masks_[i.a] == 0 && masks_[i.b] == 0)) return false;
  const uint8_t opcode = i.op == Opcode::bit_and   ? 0x41
                         : i.op == Opcode::bit_or  ? 0x45
                         : i.op == Opcode::bit_xor ? 0x47
                                                   : 0x42;
  const int a = in_mask(i.a), b = in_mask(i.b);
  out_.vex({0, 1, opcode}, result_mask(), a, Operand::of(b));
  return true;
}

void EmitterAvx512::select(const Instruction& i) {
  const int mask = in_mask(i.a), otherwise = in_register(i.c);
  const Operand then = operand(i.b);
  out_.evex({1, 2, 0x65, wide_}, result(), otherwise, then, mask);
}

bool EmitterAvx512::convert(const Instruction& i) {
  const auto one = [&](const Vex& op) {
    const Operand from = operand(i.a);
    out_.evex(op, result(), 0, from);
    return true;
  };
  if (i.immediate < kToHalf) {
    const auto from = static_cast<Lane>(i.immediate);
    if (from == Lane::int32 && i.lane == Lane::float32) return one({0, 1, 0x5b});
    return from == Lane::float32 && i.lane == Lane::int32 && one({2, 1, 0x5b});
  }
  if (i.immediate == kToHalf) {
    const int source = in_register(i.a), to = result();
    out_.evex({1, 3, 0x1d}, source, 0, Operand::of(to), 0, 0);  // vcvtps2ph, to even
    out_.evex({1, 2, 0x13}, to, 0, Operand::of(to));            // vcvtph2ps
    return true;
  }
  const auto type = static_cast<Memory>(i.immediate - kFirstMemory);
  if (is_wide(i.lane) && type != Memory::boolean) return false;
  switch (type) {
    case Memory::boolean: {
      // One less than 0 or 1 is the inverse of the truth value.
      one({1, 2, static_cast<uint8_t>(wide_ ? 0x32 : 0x31)});
      const int to = values_[now_].reg;
      out_.evex({1, 1, static_cast<uint8_t>(wide_ ? 0xd4 : 0xfe), wide_}, to, to, Operand::at(kPool, 0));
      out_.evex({0, 1, 0x57}, to, to, Operand::at(kPool, 0));
      return true;
    }
    case Memory::uint8:
      return one({1, 2, 0x31});
    case Memory::int8:
      return one({1, 2, 0x21});
    case Memory::uint16:
      return one({1, 2, 0x33});
    case Memory::int16:
      return one({1, 2, 0x23});
    case Memory::float16:
      return one({1, 2, 0x13});
    case Memory::bfloat16: {
      one({1, 2, 0x33});
      const int to = values_[now_].reg;
      out_.evex({1, 1, 0x72}, 6, to, Operand::of(to), 0, 16);  // vpslld
      return true;
    }
    case Memory::lane:
      break;
  }
  return false;
}

void EmitterAvx512::store_as(Memory type, bool wide, int from, const Operand& to, int scratch, int) {
  const auto s = Operand::of(scratch);
  switch (type) {
    case Memory::lane:
      return store(from, to);
    case Memory::float16:
      return out_.evex({1, 3, 0x1d}, from, 0, to, 0, 0);
    case Memory::boolean:
      // All bits of a lane or none: one of them is kept.
      out_.evex({1, 1, static_cast<uint8_t>(wide ? 0x73 : 0x72), wide}, 2, scratch, Operand::of(from), 0,
                wide ? 63 : 31);
      return out_.evex({2, 2, static_cast<uint8_t>(wide ? 0x32 : 0x31)}, scratch, 0, to);  // vpmovqb, vpmovdb
    case Memory::uint8:
    case Memory::int8:
      return out_.evex({2, 2, 0x31}, from, 0, to);
    case Memory::uint16:
    case Memory::int16:
      return out_.evex({2, 2, 0x33}, from, 0, to);  // vpmovdw
    case Memory::bfloat16:
      out_.evex({1, 1, 0x72}, 2, scratch, Operand::of(from), 0, 16);
      return out_.evex({2, 2, 0x33}, s.vector, 0, to);
  }
}

void EmitterAvx512::materialize(int truth) {
  const int reg = free_register();
  out_.evex({2, 2, 0x38, wide_}, reg, 0, Operand::of(masks_[truth]));  // vpmovm2d, vpmovm2q
  hold(reg, truth);
}

int EmitterAvx512::in_mask(int truth) {
  if (masks_[truth] != 0) return masks_[truth];
  const int from = in_register(truth), mask = free_mask();
  out_.evex({2, 2, 0x39, wide_}, mask, 0, Operand::of(from));  // vpmovd2m, vpmovq2m
  hold_mask(mask, truth);
  return mask;
}

int EmitterAvx512::free_mask() {
  int found = 0;
  size_t latest = 0;
  for (int mask = 1; mask < kMasks; ++mask) {
    const int truth = holds_truth_[mask] - 1;
    if (truth < 0) return mask;
    if (is_locked(truth)) continue;
    if (!is_needed_later(truth)) {
      found = mask;
      break;
    }
    const auto& uses = values_[truth].uses;
    const auto next = static_cast<size_t>(*std::upper_bound(uses.begin(), uses.end(), now_));
    if (next >= latest) {
      latest = next;
      found = mask;
    }
  }
  const int truth = holds_truth_[found] - 1;
  if (is_needed_later(truth) && values_[truth].reg < 0 && !in_memory(truth)) materialize(truth);
  masks_[truth] = 0;
  holds_truth_[found] = 0;
  return found;
}

void EmitterAvx512::hold_mask(int mask, int truth) {
  masks_[truth] = static_cast<int8_t>(mask);
  holds_truth_[mask] = truth + 1;
}

int EmitterAvx512::result_mask() {
  const int mask = free_mask();
  hold_mask(mask, now_);
  return mask;
}

void EmitterAvx512::forget() {
  Emitter::forget();
  for (int mask = 1; mask < kMasks; ++mask) {
    if (holds_truth_[mask] != 0) masks_[holds_truth_[mask] - 1] = 0;
    holds_truth_[mask] = 0;
  }
}

}  // namespace thalweg::code
