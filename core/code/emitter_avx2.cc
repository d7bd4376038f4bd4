// The instructions of AVX2.
#include "code/emitter_avx2.h"

#include <cstddef>
#include <utility>

#include "code/array_rows.h"

namespace thalweg::code {
namespace {

// Instructions on packed numbers, by lane.
Vex floats(Lane lane, uint8_t opcode) { return {static_cast<uint8_t>(lane == Lane::float64), 1, opcode}; }
constexpr Vex kBroadcast32{1, 2, 0x58}, kBroadcast64{1, 2, 0x59};
constexpr Vex kToGeneral{1, 1, 0x7e, true, true}, kFromGeneral{1, 1, 0x6e, true, true};
constexpr Vex kXor{0, 1, 0x57};

}  // namespace

void EmitterAvx2::write(const Vex& op, int target, int left, const Operand& right) {
  Vex form = op;
  if (op.map == 1) form.wide = false;  // It makes no difference there, and is one byte longer.
  out_.vex(form, target, left, right);
}

void EmitterAvx2::invert(int reg) { out_.vex(kXor, reg, reg, Operand::at(kPool, 0)); }

bool EmitterAvx2::translate(const Instruction& i) {
  switch (i.op) {
    case Opcode::mul:
      if (i.lane == Lane::int64) {
        product(i);
        return true;
      }
      return arithmetic(i);
    case Opcode::compare:
      return compare(i);
    case Opcode::select: {
      const int truth = in_register(i.a), otherwise = in_register(i.c);
      const Operand then = operand(i.b);
      const int to = result();
      out_.vex({1, 3, 0x4a}, to, otherwise, then, truth << 4);
      return true;
    }
    case Opcode::shift_left:
    case Opcode::shift_right:
    case Opcode::shift_right_signed: {
      const int from = in_register(i.a), wide = is_wide(i.lane);
      if (wide && i.op == Opcode::shift_right_signed) return false;
      const int kind = i.op == Opcode::shift_left ? 6 : i.op == Opcode::shift_right ? 2 : 4;
      const int to = result();
      out_.vex({1, 1, static_cast<uint8_t>(wide ? 0x73 : 0x72)}, kind, to, Operand::of(from),
               static_cast<int>(i.immediate));
      return true;
    }
    case Opcode::round: {
      const Operand from = operand(i.a);
      const int to = result();
      // Bit 3: no exception for inexact results.
      out_.vex({1, 3, static_cast<uint8_t>(i.lane == Lane::float64 ? 9 : 8)}, to, 0, from,
               8 | static_cast<int>(i.immediate));
      return true;
    }
    case Opcode::convert:
      return convert(i);
    case Opcode::quotient:
    case Opcode::remainder:
      divide(i);
      return true;
    case Opcode::call:
      call(i);
      return true;
    case Opcode::block:
      run_block(i);
      return true;
    case Opcode::array_row:
      find_row(i);
      return true;
    case Opcode::array_load:
    case Opcode::array_store:
      use_row(i);
      return true;
    default:
      return arithmetic(i);
  }
}

bool EmitterAvx2::compare(const Instruction& i) {
  const auto relation = static_cast<Relation>(i.immediate);
  if (is_float(i.lane)) {
    // Comparisons with NaN are false, except that it differs from everything.
    constexpr uint8_t kPredicates[] = {0x11, 0x12, 0x00, 0x04, 0x1e, 0x1d};
    const int left = in_register(i.a);
    const Operand right = operand(i.b);
    const int to = result();
    out_.vex(floats(i.lane, 0xc2), to, left, right, kPredicates[relation]);
    return true;
  }
  int a = i.a, b = i.b;
  const bool equality = relation == kEqual || relation == kNotEqual;
  if (i.lane == Lane::truth && !equality) return false;
  const bool inverted = relation == kNotEqual || relation == kLessEqual || relation == kGreaterEqual;
  if (relation == kLess || relation == kGreaterEqual) std::swap(a, b);  // a < b is b > a
  const bool wide = is_wide(i.lane);
  const Vex op = equality ? (wide ? Vex{1, 2, 0x29} : Vex{1, 1, 0x76}) : (wide ? Vex{1, 2, 0x37} : Vex{1, 1, 0x66});
  const int left = in_register(a);
  const Operand right = operand(b);
  const int to = result();
  out_.vex(op, to, left, right);
  if (inverted) invert(to);
  return true;
}

bool EmitterAvx2::convert(const Instruction& i) {
  if (i.immediate >= kToHalf) return widen(i);
  const auto from_lane = static_cast<Lane>(i.immediate);
  const Lane to_lane = i.lane;
  const auto is = [&](Lane from, Lane to) { return from_lane == from && to_lane == to; };
  const auto one = [&](const Vex& op, const Vex* spread = nullptr) {
    const Operand from = operand(i.a);
    const int to = result();
    out_.vex(op, to, 0, from);
    if (spread != nullptr) out_.vex(*spread, to, 0, Operand::of(to));
    return true;
  };
  if (is(Lane::int32, Lane::float32)) return one({0, 1, 0x5b});
  if (is(Lane::float32, Lane::int32)) return one({2, 1, 0x5b});
  if (is(Lane::float32, Lane::float64)) return one({0, 1, 0x5a});
  if (is(Lane::float64, Lane::float32)) return one({1, 1, 0x5a}, &kBroadcast32);
  if (is(Lane::int32, Lane::float64)) return one({2, 1, 0xe6});
  if (is(Lane::float64, Lane::int32)) return one({1, 1, 0xe6}, &kBroadcast32);
  if (is(Lane::int32, Lane::int64)) return one({1, 2, 0x25});
  if (is(Lane::int64, Lane::int32)) return one(kBroadcast32);
  const int from = in_register(i.a);
  if (from_lane == Lane::int64 && is_float(to_lane)) {
    const bool wide = is_wide(to_lane);
    out_.vex(kToGeneral, from, 0, Operand::of(rax));
    const int to = result();
    out_.vex(kXor, to, to, Operand::of(to));
    out_.vex({static_cast<uint8_t>(wide ? 3 : 2), 1, 0x2a, true, true}, to, to, Operand::of(rax));
    out_.vex(wide ? kBroadcast64 : kBroadcast32, to, 0, Operand::of(to));
    return true;
  }
  if (is_float(from_lane) && to_lane == Lane::int64) {
    out_.vex({static_cast<uint8_t>(is_wide(from_lane) ? 3 : 2), 1, 0x2c, true, true}, rax, 0, Operand::of(from));
    const int to = result();
    out_.vex(kFromGeneral, to, 0, Operand::of(rax));
    out_.vex(kBroadcast64, to, 0, Operand::of(to));
    return true;
  }
  return false;
}

void EmitterAvx2::product(const Instruction& i) {
  const int a = in_register(i.a), b = in_register(i.b);
  out_.vex(kToGeneral, a, 0, Operand::of(rax));
  out_.vex(kToGeneral, b, 0, Operand::of(rcx));
  out_.bytes({0x48, 0x0f, 0xaf, 0xc1});  // imul rax, rcx
  const int to = result();
  out_.vex(kFromGeneral, to, 0, Operand::of(rax));
  out_.vex(kBroadcast64, to, 0, Operand::of(to));
}

void EmitterAvx2::divide(const Instruction& i) {
  const bool wide = is_wide(i.lane), floored = i.immediate == kFloored, quotient = i.op == Opcode::quotient;
  const int a = in_register(i.a), b = in_register(i.b);
  const auto operation = [&](std::initializer_list<int> bytes) {
    if (wide) out_.bytes({0x48});
    out_.bytes(bytes);
  };
  out_.vex({1, 1, 0x7e, wide, true}, a, 0, Operand::of(rax));
  out_.vex({1, 1, 0x7e, wide, true}, b, 0, Operand::of(rcx));
  operation({0x85, 0xc9});  // test ecx, ecx
  failures_.push_back(out_.jump(Assembler::kZero));
  operation({0x83, 0xf9, 0xff});  // cmp ecx, -1
  const size_t divides = out_.jump(Assembler::kNotZero);
  // The processor refuses the one quotient that overflows.
  operation({0xf7, 0xd8});   // neg eax
  out_.bytes({0x31, 0xd2});  // xor edx, edx
  const size_t done = out_.jump();
  out_.lands(divides);
  operation({0x99});        // cdq
  operation({0xf7, 0xf9});  // idiv ecx
  if (floored) {
    operation({0x85, 0xd2});  // test edx, edx
    const size_t exact = out_.jump(Assembler::kZero);
    operation({0x89, 0xd6});  // mov esi, edx
    operation({0x31, 0xce});  // xor esi, ecx: negative if the signs differ
    const size_t same_sign = out_.jump(Assembler::kNotNegative);
    operation({0xff, 0xc8});  // dec eax
    operation({0x01, 0xca});  // add edx, ecx
    out_.lands(same_sign);
    out_.lands(exact);
  }
  out_.lands(done);
  const int to = result();
  out_.vex({1, 1, 0x6e, wide, true}, to, 0, Operand::of(quotient ? rax : rdx));
  out_.vex(wide ? kBroadcast64 : kBroadcast32, to, 0, Operand::of(to));
}

void EmitterAvx2::leave_registers() {
  for (int r = 0; r < num_registers(); ++r) {
    if (holds_[r] < 0) continue;
    const Value& value = values_[holds_[r]];
    if (is_locked(holds_[r]) || (!value.uses.empty() && value.uses.back() > now_))
      retire(holds_[r]);
    else
      drop(r);
  }
}

int EmitterAvx2::row_of_slots(std::span<const int> values) const {
  if (values.empty()) return -1;
  const Operand& first = values_[values[0]].home;
  for (size_t k = 0; k < values.size(); ++k) {
    const Operand& home = values_[values[k]].home;
    if (home.base != kSlots || home.offset != first.offset + static_cast<int>(k) * kVectorBytes) return -1;
  }
  return first.offset / kVectorBytes;
}

void EmitterAvx2::run_block(const Instruction& i) {
  const Block& block = blocks_[i.immediate];
  for (size_t k = 0; k < block.operands.size(); ++k) {
    const std::vector<int>& vectors = block.operands[k];
    block.places[k] = row_of_slots(vectors);
    if (block.places[k] >= 0 || vectors.empty()) continue;
    block.places[k] = next_slot_;
    next_slot_ += static_cast<int>(vectors.size());
    for (size_t v = 0; v < vectors.size(); ++v)
      store(in_register(vectors[v]), slot(block.places[k] + static_cast<int>(v)));
  }
  leave_registers();
  block.places[block.operands.size()] = next_slot_;
  next_slot_ += block.num_parts;
  out_.set(rdi, static_cast<int64_t>(reinterpret_cast<uintptr_t>(block.state)));
  out_.move(rsi, kSlots);
  out_.set(rax, static_cast<int64_t>(reinterpret_cast<uintptr_t>(block.function)));
  out_.bytes({0xc5, 0xf8, 0x77, 0xff, 0xd0});  // vzeroupper; call rax
  out_.bytes({0x85, 0xc0});                    // test eax, eax
  failures_.push_back(out_.jump(Assembler::kZero));
}

// ArrayRows::use, inlined. The row's address goes to a slot, which is the home of the instruction's value.
void EmitterAvx2::find_row(const Instruction& i) {
  const auto member = [](size_t offset) { return Operand::at(rax, static_cast<int32_t>(offset)); };
  out_.load(rax, values_[i.a].home);
  out_.vex({1, 1, 0x7e, false, true}, in_register(i.b), 0, Operand::of(rcx));  // vmovd: the upper half becomes 0
  out_.compare(rcx, member(offsetof(ArrayRows, count)));
  failures_.push_back(out_.jump(Assembler::kNotBelow));  // also of a negative index
  out_.load(rdx, member(offsetof(ArrayRows, used)));
  out_.bytes({0x80, 0x3c, 0x0a, 0});  // cmp byte [rdx + rcx], 0
  const size_t known = out_.jump(Assembler::kNotZero);
  out_.bytes({0xc6, 0x04, 0x0a, 1});  // mov byte [rdx + rcx], 1
  out_.load(rdx, member(offsetof(ArrayRows, indices)));
  out_.load(rsi, member(offsetof(ArrayRows, num_used)));
  out_.bytes({0x48, 0x89, 0x0c, 0xf2});                           // mov [rdx + 8 * rsi], rcx
  out_.bytes({0x48, 0xff, 0x40, offsetof(ArrayRows, num_used)});  // inc qword [rax + num_used]
  const size_t noted = out_.jump();
  out_.lands(known);
  out_.bytes({0x80, 0x78, offsetof(ArrayRows, once), 0});  // cmp byte [rax + once], 0
  failures_.push_back(out_.jump(Assembler::kNotZero));
  out_.lands(noted);
  out_.bytes({0x48, 0x0f, 0xaf, 0x48, offsetof(ArrayRows, bytes)});  // imul rcx, [rax + bytes]
  out_.bytes({0x48, 0x03, 0x48, offsetof(ArrayRows, base)});         // add rcx, [rax + base]
  const Operand home = new_slot();
  out_.store(rcx, home);
  values_[now_].home = home;
}

void EmitterAvx2::use_row(const Instruction& i) {
  const bool is_one = i.immediate == kOneElement, wide = is_wide(i.lane);
  const Operand place = Operand::at(rax, is_one ? 0 : static_cast<int32_t>(i.immediate) * kVectorBytes);
  const int value = i.op == Opcode::array_store ? in_register(i.b) : -1;
  out_.load(rax, values_[i.a].home);
  if (i.op == Opcode::array_store) {
    if (!is_one) return store(value, place);
    return out_.vex({1, 1, static_cast<uint8_t>(wide ? 0xd6 : 0x7e), false, true}, value, 0, place);  // vmovq, vmovd
  }
  const int to = result();
  is_one ? out_.vex(wide ? kBroadcast64 : kBroadcast32, to, 0, place) : load(to, place);
}

void EmitterAvx2::call(const Instruction& i) {
  const Call& function = calls_[i.immediate];
  leave_registers();
  const Operand to = new_slot();
  out_.address(rdi, operand(i.a));
  if (function.binary) {
    out_.set(rsi, function.splat_a ? 0 : 1);
    out_.address(rdx, operand(i.b));
    out_.set(rcx, function.splat_b ? 0 : 1);
    out_.address(r8, to);
    out_.set(r9, function.count);
  } else {
    out_.address(rsi, to);
    out_.set(rdx, function.count);
  }
  out_.set(rax, static_cast<int64_t>(reinterpret_cast<uintptr_t>(function.function)));
  out_.bytes({0xc5, 0xf8, 0x77, 0xff, 0xd0});  // vzeroupper; call rax
  const int reg = result();
  if (function.count == 1)
    out_.vex(is_wide(i.lane) ? kBroadcast64 : kBroadcast32, reg, 0, to);
  else
    load(reg, to);
}

}  // namespace thalweg::code
