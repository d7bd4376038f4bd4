// The loops around the instructions of a StreamCode.
//
// The code is a function of (streams, slots, out, count). rbx is the first element of the current vectors, r14 its end;
// the addresses of the first streams stay in registers.
#include "code/stream_code.h"

#include <algorithm>
#include <cstring>

#include "code/emitter_avx2.h"
#include "code/emitter_avx512.h"

namespace thalweg::code {

#if defined(__x86_64__) && defined(__AVX2__)

namespace {

constexpr Register kIndex = rbx, kEnd = r14, kOut = rbp;
constexpr Register kAddresses[] = {rcx, rdx, rsi, rdi, r8, r9, r10, r11};
constexpr int kNumAddresses = std::size(kAddresses);
// Measured: four vectors in turns take less than half the time of one after the other, also where a third of their
// values has to go to memory and back; more of either gain nothing.
constexpr int kMostTurns = 4;
constexpr int most_alive_of(Vectors vectors) { return vectors == Vectors::avx512 ? 56 : 28; }

// How many values of one vector are alive at once, at most; without constants and parameters, which are in memory.
int most_alive(const std::vector<Instruction>& list, int result) {
  const auto is_computed = [&](int v) { return list[v].op != Opcode::constant && list[v].op != Opcode::parameter; };
  const int size = static_cast<int>(list.size());
  std::vector<int> last(size, -1);
  for (int i = 0; i < size; ++i)
    for (int operand : {list[i].a, list[i].b, list[i].c})
      if (operand >= 0) last[operand] = i;
  last[result] = size;
  std::vector<int> ending(size + 1);
  int alive = 0, most = 0;
  for (int i = 0; i < size; ++i)
    if (is_computed(i) && last[i] >= 0) ++ending[last[i]];
  for (int i = 0; i < size; ++i) {
    alive -= ending[i];
    if (is_computed(i) && last[i] >= 0) most = std::max(most, ++alive);
  }
  return most;
}

// The instructions for several vectors in turns, and behind them those for one vector. Constants and splats are shared.
struct Turns {
  Turns(const std::vector<Instruction>& from, int num_streams) : from(from), num_streams(num_streams) {}
  std::vector<int> add(int copies, int result) {
    std::vector<std::vector<int>> place(copies, std::vector<int>(from.size()));
    for (size_t i = 0; i < from.size(); ++i) {
      const bool is_stream = from[i].op == Opcode::parameter && from[i].immediate < num_streams;
      const bool is_shared = from[i].op == Opcode::constant || (from[i].op == Opcode::parameter && !is_stream);
      for (int copy = 0; copy < copies; ++copy) {
        if (is_shared && shared.count(i) != 0) {
          place[copy][i] = shared[i];
          continue;
        }
        Instruction instruction = from[i];
        for (int* operand : {&instruction.a, &instruction.b, &instruction.c})
          if (*operand >= 0) *operand = place[copy][*operand];
        place[copy][i] = static_cast<int>(list.size());
        if (is_shared) shared[i] = place[copy][i];
        list.push_back(instruction);
        copy_of.push_back(copy);
      }
    }
    std::vector<int> results;
    for (int copy = 0; copy < copies; ++copy) results.push_back(place[copy][result]);
    return results;
  }
  const std::vector<Instruction>& from;
  int num_streams;
  std::unordered_map<size_t, int> shared;
  std::vector<Instruction> list;
  std::vector<int> copy_of;
};

}  // namespace

std::unique_ptr<StreamCode> StreamCode::compile(const Recording& recording, const Plan& plan, Vectors vectors) {
  const int num_streams = static_cast<int>(plan.streams.size()), result = plan.result;
  const int bytes = bytes_of(vectors), lanes = bytes / (plan.wide ? 8 : 4);
  const std::vector<Instruction>& from = recording.instructions();
  if (!recording.calls().empty()) return nullptr;
  const int copies = std::clamp(most_alive_of(vectors) / std::max(1, most_alive(from, result)), 1, kMostTurns);
  Turns turns(from, num_streams);
  struct Body {
    int copies, first, last;
    std::vector<int> results;
  };
  std::vector<Body> bodies;
  std::vector<int> roots;
  for (int count : {copies, 1}) {
    const int first = static_cast<int>(turns.list.size());
    std::vector<int> results = turns.add(count, result);
    roots.insert(roots.end(), results.begin(), results.end());
    bodies.push_back({count, first, static_cast<int>(turns.list.size()), std::move(results)});
  }
  std::unique_ptr<Emitter> made;
  if (vectors == Vectors::avx512)
    made = std::make_unique<EmitterAvx512>(turns.list, roots, plan.num_splats, plan.wide);
  else
    made = std::make_unique<EmitterAvx2>(turns.list, recording.calls(), std::vector<Block>(), roots, plan.num_splats);
  Emitter& emitter = *made;
  const int scratch = emitter.num_registers() - 1, other_scratch = scratch - 1;
  if (plan.out != Memory::lane)
    for (int reg : {scratch, other_scratch}) emitter.reserve(reg);
  for (size_t i = 0; i < turns.list.size(); ++i) {
    if (turns.list[i].op != Opcode::parameter) continue;
    const auto number = static_cast<int>(turns.list[i].immediate);
    if (number >= num_streams) {
      emitter.set_home(static_cast<int>(i), Operand::at(Emitter::kSlots, (number - num_streams) * bytes));
      continue;
    }
    const int scale = log_size(plan.streams[number], plan.wide);
    Operand stream = Operand::at(rax, turns.copy_of[i] * lanes << scale, kIndex, scale);
    if (number < kNumAddresses)
      stream.base = kAddresses[number];
    else
      stream.pointer = number;
    emitter.set_home(static_cast<int>(i), stream);
  }
  Assembler& out = emitter.out();
  out.begin_function(Emitter::kPool);
  out.move(Emitter::kSlots, rsi);
  out.move(kOut, rdx);
  out.move(kEnd, rcx);
  out.move(Emitter::kTable, rdi);
  out.bytes({0x31, 0xdb});  // xor ebx, ebx
  for (int i = 0; i < std::min(num_streams, kNumAddresses); ++i)
    out.load(kAddresses[i], Operand::at(Emitter::kTable, 8 * i));
  for (const Body& body : bodies) {
    const size_t top = out.here();
    out.address(rax, Operand::at(kIndex, body.copies * lanes));
    out.compare(rax, kEnd);
    const size_t leave = out.jump(Assembler::kAbove);
    if (!emitter.translate(body.first, body.last)) return nullptr;
    const int scale = log_size(plan.out, plan.wide);
    for (int copy = 0; copy < body.copies; ++copy)
      emitter.store_as(plan.out, plan.wide, emitter.in_register(body.results[copy]),
                       Operand::at(kOut, copy * lanes << scale, kIndex, scale), scratch, other_scratch);
    emitter.forget();
    out.add(kIndex, body.copies * lanes);
    out.jump_back(top);
    out.lands(leave);
  }
  out.end_function();
  std::unique_ptr<Executable> memory = Executable::make(out.finish(emitter.pool()));
  if (memory == nullptr) return nullptr;
  return std::unique_ptr<StreamCode>(new StreamCode(std::move(memory), emitter.num_slots(), plan.wide, vectors));
}

void StreamCode::run(const void* const* streams, std::span<const uint64_t> splats, void* out, int64_t n) const {
  if (n <= 0) return;
  const size_t bytes = bytes_of(vectors_), size = static_cast<size_t>(num_slots_) * bytes;
  constexpr size_t kFew = 4096, kLine = 64;
  alignas(kLine) unsigned char few[kFew];
  std::vector<unsigned char> many(size > kFew ? size + kLine : 0);
  unsigned char* slots = few;
  if (size > kFew) slots = many.data() + (kLine - reinterpret_cast<uintptr_t>(many.data()) % kLine) % kLine;
  for (size_t i = 0; i < splats.size(); ++i)
    for (size_t lane = 0, width = wide_ ? 8 : 4; lane < bytes; lane += width)
      std::memcpy(slots + i * bytes + lane, &splats[i], width);
  using Function = void (*)(const void* const*, void*, void*, int64_t);
  reinterpret_cast<Function>(reinterpret_cast<uintptr_t>(memory_->start()))(streams, slots, out, n);
}

#else

std::unique_ptr<StreamCode> StreamCode::compile(const Recording&, const Plan&, Vectors) { return nullptr; }
void StreamCode::run(const void* const*, std::span<const uint64_t>, void*, int64_t) const {}

#endif

}  // namespace thalweg::code
