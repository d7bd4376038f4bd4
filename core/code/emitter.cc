// Registers, and the choice of instructions.
#include "code/emitter.h"

#include <algorithm>
#include <utility>

namespace thalweg::code {
namespace {

// Instructions on packed numbers, by lane.
Vex floats(Lane lane, uint8_t opcode) { return {static_cast<uint8_t>(lane == Lane::float64), 1, opcode}; }
constexpr Vex kBroadcast32{1, 2, 0x58}, kBroadcast64{1, 2, 0x59};
constexpr Vex kToGeneral{1, 1, 0x7e, true, true}, kFromGeneral{1, 1, 0x6e, true, true};
constexpr Vex kXor{0, 1, 0x57};

bool is_commutative(Opcode op) {
  return op == Opcode::add || op == Opcode::mul || op == Opcode::bit_and || op == Opcode::bit_or ||
         op == Opcode::bit_xor;
}

}  // namespace

Emitter::Emitter(std::vector<Instruction> list, const std::vector<Call>& calls, std::vector<Block> blocks,
                 std::span<const int> roots, int first_slot)
    : list_(std::move(list)), calls_(calls), blocks_(std::move(blocks)), values_(list_.size()), next_slot_(first_slot) {
  std::fill_n(holds_, kRegisters, -1);
  pool_.assign(4, ~uint64_t{0});  // at the offset 0, for `invert`
  const int size = static_cast<int>(list_.size());
  for (int root : roots) values_[root].live = true;
  for (int i = size - 1; i >= 0; --i) {
    Value& value = values_[i];
    value.live |= list_[i].op == Opcode::quotient || list_[i].op == Opcode::remainder;
    if (!value.live) continue;
    for (int operand : {list_[i].a, list_[i].b, list_[i].c})
      if (operand >= 0) values_[operand].live = true;
    if (list_[i].op != Opcode::block) continue;
    for (const std::vector<int>& vectors : blocks_[list_[i].immediate].operands)
      for (int vector : vectors) values_[vector].live = true;
  }
  for (int i = 0; i < size; ++i) {
    const Instruction& instruction = list_[i];
    if (!values_[i].live) continue;
    for (int operand : {instruction.a, instruction.b, instruction.c})
      if (operand >= 0) values_[operand].uses.push_back(i);
    if (instruction.op == Opcode::block)
      for (const std::vector<int>& vectors : blocks_[instruction.immediate].operands)
        for (int vector : vectors) values_[vector].uses.push_back(i);
    if (instruction.op != Opcode::constant) continue;
    values_[i].home = Operand::at(kPool, static_cast<int32_t>(pool_.size() * sizeof(uint64_t)));
    auto bits = static_cast<uint64_t>(instruction.immediate);
    if (!is_wide(instruction.lane) && instruction.lane != Lane::truth) bits = (bits & 0xffffffffu) * 0x100000001u;
    pool_.insert(pool_.end(), 4, bits);
  }
  for (int root : roots) values_[root].uses.push_back(INT_MAX);
}

void Emitter::pin(int value, int reg) {
  if (values_[value].reg >= 0 && values_[value].reg != reg) drop(values_[value].reg);
  if (values_[value].reg != reg) load(reg, values_[value].home);
  hold(reg, value);
  pinned_[reg] = true;
}

bool Emitter::is_locked(int value) const {
  if (now_ >= static_cast<int>(list_.size())) return false;
  const Instruction& i = list_[now_];
  return value == i.a || value == i.b || value == i.c;
}

bool Emitter::dies_now(int value) const {
  const Value& v = values_[value];
  return v.reg >= 0 && !pinned_[v.reg] && (v.uses.empty() || v.uses.back() <= now_);
}

void Emitter::hold(int reg, int value) {
  holds_[reg] = value;
  values_[value].reg = reg;
}

void Emitter::drop(int reg) {
  if (holds_[reg] >= 0) values_[holds_[reg]].reg = -1;
  holds_[reg] = -1;
}

int Emitter::free_register() {
  for (int r = 0; r < kRegisters; ++r)
    if (holds_[r] < 0 && !pinned_[r]) return r;
  // The value that is needed last gives way; one that is in memory anyway does so sooner.
  int found = -1;
  int64_t latest = -1;
  for (int r = 0; r < kRegisters; ++r) {
    if (pinned_[r] || is_locked(holds_[r])) continue;
    const Value& value = values_[holds_[r]];
    const auto use = std::upper_bound(value.uses.begin(), value.uses.end(), now_);
    int64_t distance = use == value.uses.end() ? INT_MAX : *use - now_;
    if (in_memory(holds_[r])) distance = 2 * distance + 8;
    if (distance > latest) {
      latest = distance;
      found = r;
    }
  }
  const int value = holds_[found];
  if (!in_memory(value)) {
    values_[value].home = new_slot();
    store(found, values_[value].home);
  }
  drop(found);
  return found;
}

Operand Emitter::reach(const Operand& home) {
  if (home.pointer >= 0) out_.load(rax, Operand::at(kTable, 8 * home.pointer));
  return home;
}

Operand Emitter::operand(int value) {
  const Value& v = values_[value];
  return v.reg >= 0 ? Operand::of(v.reg) : reach(v.home);
}

int Emitter::in_register(int value) {
  if (values_[value].reg >= 0) return values_[value].reg;
  const int reg = free_register();
  load(reg, reach(values_[value].home));
  hold(reg, value);
  return reg;
}

int Emitter::result() {
  const Instruction& i = list_[now_];
  for (int value : {i.a, i.b, i.c})
    if (value >= 0 && dies_now(value)) drop(values_[value].reg);
  const int reg = free_register();
  hold(reg, now_);
  return reg;
}

void Emitter::compute(const Vex& op, int left, const Operand& right) { out_.vex(op, result(), left, right); }

void Emitter::invert(int reg) { out_.vex(kXor, reg, reg, Operand::at(kPool, 0)); }

void Emitter::retire(int value) {
  const int reg = values_[value].reg;
  if (reg < 0) return;
  if (!in_memory(value)) {
    values_[value].home = new_slot();
    store(reg, values_[value].home);
  }
  drop(reg);
}

void Emitter::forget() {
  for (int r = 0; r < kRegisters; ++r)
    if (!pinned_[r]) drop(r);
}

bool Emitter::translate(int first, int last) {
  for (now_ = first; now_ < last; ++now_) {
    const Instruction& i = list_[now_];
    if (i.op == Opcode::parameter || i.op == Opcode::constant || !values_[now_].live) continue;
    if (i.op == Opcode::part) {
      const Block& block = blocks_[list_[i.a].immediate];
      values_[now_].home = slot(block.places[block.operands.size()] + static_cast<int>(i.immediate));
      continue;
    }
    if (!translate(i)) return false;
    for (int value : {i.a, i.b, i.c})
      if (value >= 0 && dies_now(value)) drop(values_[value].reg);
  }
  return true;
}

bool Emitter::translate(const Instruction& i) {
  switch (i.op) {
    case Opcode::mul:
      if (i.lane == Lane::int64) {
        product(i);
        return true;
      }
      return arithmetic(i);
    case Opcode::fma:
      fused(i);
      return true;
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
    case Opcode::sqrt: {
      const Operand from = operand(i.a);
      compute(floats(i.lane, 0x51), 0, from);
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
    default:
      return arithmetic(i);
  }
}

bool Emitter::arithmetic(const Instruction& i) {
  int a = i.a, b = i.b;
  // The second operand may be in memory.
  if (is_commutative(i.op) && values_[a].reg < 0 && values_[b].reg >= 0) std::swap(a, b);
  const bool wide = is_wide(i.lane);
  Vex op{};
  switch (i.op) {
    case Opcode::add:
      op = is_float(i.lane) ? floats(i.lane, 0x58) : Vex{1, 1, static_cast<uint8_t>(wide ? 0xd4 : 0xfe)};
      break;
    case Opcode::sub:
      op = is_float(i.lane) ? floats(i.lane, 0x5c) : Vex{1, 1, static_cast<uint8_t>(wide ? 0xfb : 0xfa)};
      break;
    case Opcode::mul:
      op = is_float(i.lane) ? floats(i.lane, 0x59) : Vex{1, 2, 0x40};
      break;
    case Opcode::div:
      op = floats(i.lane, 0x5e);
      break;
    case Opcode::lesser:
      op = floats(i.lane, 0x5d);
      break;
    case Opcode::greater:
      op = floats(i.lane, 0x5f);
      break;
    case Opcode::bit_and:
      op = {0, 1, 0x54};
      break;
    case Opcode::and_not:
      op = {0, 1, 0x55};
      break;
    case Opcode::bit_or:
      op = {0, 1, 0x56};
      break;
    case Opcode::bit_xor:
      op = kXor;
      break;
    default:
      return false;
  }
  const int left = in_register(a);
  compute(op, left, operand(b));
  return true;
}

bool Emitter::compare(const Instruction& i) {
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

bool Emitter::convert(const Instruction& i) {
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

// One of three forms, which overwrite one operand each: 213 a = b * a + c, 231 c = a * b + c.
void Emitter::fused(const Instruction& i) {
  const bool wide = is_wide(i.lane);
  const auto form = [&](uint8_t opcode) { return Vex{1, 2, opcode, wide}; };
  int a = i.a, b = i.b;
  const auto may_overwrite = [&](int value) { return dies_now(value); };
  if (!may_overwrite(a) && may_overwrite(b)) std::swap(a, b);
  const auto finish = [&](int reg, int value) {
    drop(reg);
    if (value >= 0 && values_[value].reg == reg) values_[value].reg = -1;
    hold(reg, now_);
  };
  if (may_overwrite(a) && a != i.c) {
    const int factor = in_register(b), reg = values_[a].reg;
    out_.vex(form(0xa8), reg, factor, operand(i.c));
    finish(reg, a);
  } else if (may_overwrite(i.c) && i.c != a && i.c != b) {
    if (values_[a].reg < 0) std::swap(a, b);
    const int factor = in_register(a), reg = values_[i.c].reg;
    out_.vex(form(0xb8), reg, factor, operand(b));
    finish(reg, i.c);
  } else {
    // A copy of a factor is overwritten; preferably of one that would have to be loaded anyway.
    if (values_[a].reg >= 0 && values_[b].reg < 0) std::swap(a, b);
    const int factor = in_register(b);
    const int reg = free_register();
    load(reg, operand(a));
    out_.vex(form(0xa8), reg, factor, operand(i.c));
    hold(reg, now_);
  }
}

void Emitter::product(const Instruction& i) {
  const int a = in_register(i.a), b = in_register(i.b);
  out_.vex(kToGeneral, a, 0, Operand::of(rax));
  out_.vex(kToGeneral, b, 0, Operand::of(rcx));
  out_.bytes({0x48, 0x0f, 0xaf, 0xc1});  // imul rax, rcx
  const int to = result();
  out_.vex(kFromGeneral, to, 0, Operand::of(rax));
  out_.vex(kBroadcast64, to, 0, Operand::of(to));
}

void Emitter::divide(const Instruction& i) {
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

void Emitter::leave_registers() {
  for (int r = 0; r < kRegisters; ++r) {
    if (holds_[r] < 0) continue;
    const Value& value = values_[holds_[r]];
    if (is_locked(holds_[r]) || (!value.uses.empty() && value.uses.back() > now_))
      retire(holds_[r]);
    else
      drop(r);
  }
}

int Emitter::row_of_slots(std::span<const int> values) const {
  if (values.empty()) return -1;
  const Operand& first = values_[values[0]].home;
  for (size_t k = 0; k < values.size(); ++k) {
    const Operand& home = values_[values[k]].home;
    if (home.base != kSlots || home.offset != first.offset + static_cast<int>(k) * kVectorBytes) return -1;
  }
  return first.offset / kVectorBytes;
}

void Emitter::run_block(const Instruction& i) {
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

void Emitter::call(const Instruction& i) {
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
