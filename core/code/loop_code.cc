// The loop around the instructions of a LoopCode.
//
// The code is a function of (slots, limit), which returns what is left of the limit, times four, and the outcome.
// Instructions whose operands never change are computed before the loop. Variables, and then the most used other
// operands, stay in registers as far as there are enough, unless the loop calls functions or runs blocks, which may
// change all of them.
#include "code/loop_code.h"

#include <algorithm>

#include "code/emitter_avx2.h"

namespace thalweg::code {

#if defined(__x86_64__) && defined(__AVX2__)

namespace {

constexpr Register kLeft = r14;  // iterations until the limit
constexpr int kScratch = 0;      // a vector register for moves
constexpr int kMostPinned = 9;   // leaves six for values of an iteration

// The instructions in another order: first those that are computed once.
struct Order {
  Order(const BlockRecording& recording, const LoopPlan& plan)
      : place(recording.instructions().size()), blocks(recording.blocks()) {
    const auto& from = recording.instructions();
    std::vector<char> is_once(from.size());
    for (size_t i = 0; i < from.size(); ++i) {
      const Instruction& instruction = from[i];
      bool once = instruction.op != Opcode::call && instruction.op != Opcode::block &&
                  instruction.op != Opcode::quotient && instruction.op != Opcode::remainder &&
                  instruction.op != Opcode::array_row && instruction.op != Opcode::array_store;
      if (instruction.op == Opcode::parameter) once = instruction.immediate >= plan.num_variables;
      for (int operand : {instruction.a, instruction.b, instruction.c})
        if (operand >= 0) once = once && is_once[operand];
      is_once[i] = once;
      if (once) add(instruction, i);
    }
    loop = static_cast<int>(list.size());
    body = loop;
    for (size_t i = 0; i < from.size(); ++i) {
      if (!is_once[i]) add(from[i], i);
      if (static_cast<int>(i) < plan.condition_end) body = static_cast<int>(list.size());
    }
  }
  void add(Instruction instruction, size_t number) {
    for (int* operand : {&instruction.a, &instruction.b, &instruction.c})
      if (*operand >= 0) *operand = place[*operand];
    if (instruction.op == Opcode::block)
      for (std::vector<int>& vectors : blocks[instruction.immediate].operands)
        for (int& vector : vectors) vector = place[vector];
    place[number] = static_cast<int>(list.size());
    list.push_back(instruction);
  }
  std::vector<int> place;  // of the recording's instructions in the list
  std::vector<Instruction> list;
  std::vector<Block> blocks;
  int loop = 0, body = 0;  // where these begin
};

// Keeps values in registers over all iterations. Returns the register of each variable, or -1.
std::vector<int> pin_values(EmitterAvx2& emitter, const Order& order, const LoopPlan& plan,
                            std::span<const int> variables) {
  const auto& list = emitter.list();
  std::vector<int> uses(list.size());
  for (size_t i = order.loop; i < list.size(); ++i)
    for (int operand : {list[i].op == Opcode::array_row ? kNone : list[i].a, list[i].b, list[i].c})
      if (operand >= 0 && operand < order.loop) ++uses[operand];
  std::vector<int> chosen(variables.begin(), variables.end());
  if (chosen.size() > kMostPinned) chosen.resize(kMostPinned);
  std::vector<int> others;
  for (int i = 0; i < order.loop; ++i)
    if (uses[i] > 0 && emitter.is_live(i)) others.push_back(i);
  std::stable_sort(others.begin(), others.end(), [&](int a, int b) { return uses[a] > uses[b]; });
  for (int value : others)
    if (chosen.size() < kMostPinned) chosen.push_back(value);
  std::vector<int> registers(plan.num_variables, -1);
  for (size_t i = 0; i < chosen.size(); ++i) {
    const int reg = emitter.num_registers() - 1 - static_cast<int>(i);
    emitter.pin(chosen[i], reg);
    if (i < variables.size()) registers[i] = reg;
  }
  return registers;
}

bool is_same(const Operand& a, const Operand& b) {
  return a.vector == b.vector && (a.in_register() || (a.base == b.base && a.offset == b.offset));
}

struct Move {
  Operand to, from;
};
// All moves at once: sources are read before they are overwritten.
void move_together(Emitter& emitter, std::vector<Move> moves, const Operand& spare) {
  const auto move = [&](const Operand& to, const Operand& from) {
    if (to.in_register()) return emitter.load(to.vector, from);
    if (from.in_register()) return emitter.store(from.vector, to);
    emitter.load(kScratch, from);
    emitter.store(kScratch, to);
  };
  std::erase_if(moves, [](const Move& m) { return is_same(m.to, m.from); });
  while (!moves.empty()) {
    const auto ready = std::find_if(moves.begin(), moves.end(), [&](const Move& m) {
      return std::none_of(moves.begin(), moves.end(), [&](const Move& other) { return is_same(other.from, m.to); });
    });
    if (ready != moves.end()) {
      move(ready->to, ready->from);
      moves.erase(ready);
      continue;
    }
    // Only cycles are left: one value steps aside.
    const Operand aside = moves.front().to;
    move(spare, aside);
    for (Move& m : moves)
      if (is_same(m.from, aside)) m.from = spare;
  }
}

}  // namespace

std::unique_ptr<LoopCode> LoopCode::compile(const BlockRecording& recording, const LoopPlan& plan) {
  const Order order(recording, plan);
  std::vector<int> roots{order.place[plan.predicate]};
  for (int value : plan.next) roots.push_back(order.place[value]);
  const int spare_slot = plan.num_parameters;
  EmitterAvx2 emitter(order.list, recording.calls(), order.blocks, roots, spare_slot + 1);
  std::vector<int> variables(plan.num_variables, -1);
  for (int i = 0; i < static_cast<int>(order.list.size()); ++i) {
    const Instruction& instruction = order.list[i];
    if (instruction.op != Opcode::parameter) continue;
    emitter.set_home(i, Operand::at(Emitter::kSlots, static_cast<int32_t>(instruction.immediate) * kVectorBytes));
    if (instruction.immediate < plan.num_variables) variables[instruction.immediate] = i;
  }
  Assembler& out = emitter.out();
  out.begin_function(Emitter::kPool);
  out.move(Emitter::kSlots, rdi);
  out.move(kLeft, rsi);
  emitter.reserve(kScratch);
  if (!emitter.translate(0, order.loop)) return nullptr;
  for (int i = 0; i < order.loop; ++i) emitter.retire(i);
  std::vector<int> registers(plan.num_variables, -1);
  if (recording.calls().empty() && order.blocks.empty()) registers = pin_values(emitter, order, plan, variables);

  const size_t top = out.here();
  out.add(kLeft, -1);
  const size_t at_limit = out.jump(Assembler::kNegative);
  if (!emitter.translate(order.loop, order.body)) return nullptr;
  const int predicate = emitter.in_register(roots[0]);
  out.vex({0, 1, 0x50}, rax, 0, Operand::of(predicate));  // vmovmskps
  out.bytes({0x85, 0xc0});                                // test eax, eax
  const size_t at_end = out.jump(Assembler::kZero);
  if (!emitter.translate(order.body, static_cast<int>(order.list.size()))) return nullptr;
  const auto home = [&](int k) { return Operand::at(Emitter::kSlots, k * kVectorBytes); };
  std::vector<Move> moves;
  for (int k = 0; k < plan.num_variables; ++k)
    moves.push_back({registers[k] >= 0 ? Operand::of(registers[k]) : home(k), emitter.operand(roots[k + 1])});
  move_together(emitter, std::move(moves), home(spare_slot));
  emitter.forget();
  out.jump_back(top);

  std::vector<size_t> to_store;
  const auto leave = [&](std::span<const size_t> jumps, Outcome outcome) {
    for (size_t jump : jumps) out.lands(jump);
    out.move(rax, kLeft);
    out.bytes({0x48, 0xc1, 0xe0, 2});  // shl rax, 2
    out.add(rax, static_cast<int32_t>(outcome));
    to_store.push_back(out.jump());
  };
  leave(std::span(&at_limit, 1), Outcome::limit);
  leave(emitter.failures(), Outcome::failed);
  leave(std::span(&at_end, 1), Outcome::ended);
  for (size_t jump : to_store) out.lands(jump);
  for (int k = 0; k < plan.num_variables; ++k)
    if (registers[k] >= 0) emitter.store(registers[k], home(k));
  out.end_function();
  std::unique_ptr<Executable> memory = Executable::make(out.finish(emitter.pool()));
  if (memory == nullptr) return nullptr;
  return std::unique_ptr<LoopCode>(new LoopCode(std::move(memory), emitter.num_slots()));
}

LoopCode::Result LoopCode::run(Slot* slots, int64_t limit) const {
  using Function = int64_t (*)(Slot*, int64_t);
  const auto function = reinterpret_cast<Function>(reinterpret_cast<uintptr_t>(memory_->start()));
  const int64_t found = function(slots, limit);
  // What is left was counted down for the iteration that did not take place.
  return {static_cast<Outcome>(found & 3), limit - 1 - (found >> 2)};
}

#else

std::unique_ptr<LoopCode> LoopCode::compile(const BlockRecording&, const LoopPlan&) { return nullptr; }
LoopCode::Result LoopCode::run(Slot*, int64_t) const { return {Outcome::failed, 0}; }

#endif

}  // namespace thalweg::code
