// Registers, and the instructions that all processors have.
#include "code/emitter.h"

#include <algorithm>
#include <utility>

namespace thalweg::code {
namespace {

bool is_commutative(Opcode op) {
  return op == Opcode::add || op == Opcode::mul || op == Opcode::bit_and || op == Opcode::bit_or ||
         op == Opcode::bit_xor;
}

}  // namespace

Emitter::Emitter(std::vector<Instruction> list, std::vector<Block> blocks, std::span<const int> roots, int first_slot,
                 int num_registers, int vector_bytes)
    : list_(std::move(list)),
      blocks_(std::move(blocks)),
      values_(list_.size()),
      holds_(num_registers, -1),
      next_slot_(first_slot),
      vector_bytes_(vector_bytes),
      pinned_(num_registers) {
  const size_t words = vector_bytes / sizeof(uint64_t);
  pool_.assign(words, ~uint64_t{0});  // at the offset 0: all bits
  const int size = static_cast<int>(list_.size());
  for (int root : roots) values_[root].live = true;
  for (int i = size - 1; i >= 0; --i) {
    Value& value = values_[i];
    value.live |= list_[i].op == Opcode::quotient || list_[i].op == Opcode::remainder ||
                  list_[i].op == Opcode::array_row || list_[i].op == Opcode::array_store;
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
    pool_.insert(pool_.end(), words, bits);
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
  for (int r = 0; r < num_registers(); ++r)
    if (holds_[r] < 0 && !pinned_[r]) return r;
  // The value that is needed last gives way; one that is in memory anyway does so sooner.
  int found = -1;
  int64_t latest = -1;
  for (int r = 0; r < num_registers(); ++r) {
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
  if (v.reg < 0 && !in_memory(value)) materialize(value);
  return v.reg >= 0 ? Operand::of(v.reg) : reach(v.home);
}

int Emitter::in_register(int value) {
  if (values_[value].reg < 0 && !in_memory(value)) materialize(value);
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
  for (int r = 0; r < num_registers(); ++r)
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

bool Emitter::is_number(int value) const {
  const Instruction& i = list_[value];
  if (i.op != Opcode::constant) return false;
  const auto bits = static_cast<uint64_t>(i.immediate);
  return is_wide(i.lane) ? bits << 1 <= uint64_t{0x7ff} << 53 : (bits & 0x7fffffffu) <= 0x7f800000u;
}

bool Emitter::arithmetic(const Instruction& i) {
  int a = i.a, b = i.b;
  const bool wide = is_wide(i.lane), is_real = is_float(i.lane);
  // Instructions on packed floats, by lane.
  const auto floats = [&](uint8_t opcode) { return Vex{static_cast<uint8_t>(wide), 1, opcode, wide}; };
  // The second operand may be in memory. Of two NaNs the first one is the result.
  const bool may_swap = is_commutative(i.op) && (!is_real || is_number(a));
  if (may_swap && values_[a].reg < 0 && values_[b].reg >= 0) std::swap(a, b);
  Vex op{};
  switch (i.op) {
    case Opcode::add:
      op = is_real ? floats(0x58) : Vex{1, 1, static_cast<uint8_t>(wide ? 0xd4 : 0xfe), wide};
      break;
    case Opcode::sub:
      op = is_real ? floats(0x5c) : Vex{1, 1, static_cast<uint8_t>(wide ? 0xfb : 0xfa), wide};
      break;
    case Opcode::mul:
      op = is_real ? floats(0x59) : Vex{1, 2, 0x40};
      break;
    case Opcode::div:
      op = floats(0x5e);
      break;
    case Opcode::lesser:
      op = floats(0x5d);
      break;
    case Opcode::greater:
      op = floats(0x5f);
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
      op = {0, 1, 0x57};
      break;
    case Opcode::sqrt:
      compute(floats(0x51), 0, operand(a));
      return true;
    case Opcode::fma:
      fused(i);
      return true;
    default:
      return false;
  }
  const int left = in_register(a);
  compute(op, left, operand(b));
  return true;
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
    write(form(0xa8), reg, factor, operand(i.c));
    finish(reg, a);
  } else if (may_overwrite(i.c) && i.c != a && i.c != b) {
    if (values_[a].reg < 0) std::swap(a, b);
    const int factor = in_register(a), reg = values_[i.c].reg;
    write(form(0xb8), reg, factor, operand(b));
    finish(reg, i.c);
  } else {
    // A copy of a factor is overwritten; preferably of one that would have to be loaded anyway.
    if (values_[a].reg >= 0 && values_[b].reg < 0) std::swap(a, b);
    const int factor = in_register(b);
    const int reg = free_register();
    load(reg, operand(a));
    write(form(0xa8), reg, factor, operand(i.c));
    hold(reg, now_);
  }
}

}  // namespace thalweg::code
