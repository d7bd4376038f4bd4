// Recording instructions, with those simplifications that keep every bit.
#include "code/recording.h"

namespace thalweg::code {
namespace {

thread_local Recording* current_recording = nullptr;

}  // namespace

size_t Recording::Hash::operator()(const Instruction& i) const {
  size_t hash = static_cast<size_t>(i.op) * 31 + static_cast<size_t>(i.lane);
  for (int64_t part : {int64_t{i.a}, int64_t{i.b}, int64_t{i.c}, i.immediate})
    hash = (hash ^ static_cast<size_t>(part)) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

int Recording::add(const Instruction& given) {
  Instruction instruction = given;
  if (guard_ != kNone && (given.op == Opcode::quotient || given.op == Opcode::remainder))
    instruction.b = select(given.lane, guard_, given.b, constant(given.lane, 1));
  const auto [found, is_new] = known_.try_emplace(instruction, static_cast<int>(instructions_.size()));
  if (is_new) instructions_.push_back(instruction);
  return found->second;
}

int Recording::select(Lane lane, int truth, int a, int b) {
  if (a == b) return a;
  // A choice between the operands of a comparison is one instruction; where neither is less, the second operand is the
  // result, as in x86's.
  const Instruction& test = instructions_[truth];
  if (test.op == Opcode::compare && test.lane == lane && is_float(lane)) {
    if (test.a == a && test.b == b && test.immediate == kLess) return add({Opcode::lesser, lane, a, b});
    if (test.a == a && test.b == b && test.immediate == kGreater) return add({Opcode::greater, lane, a, b});
    if (test.a == b && test.b == a && test.immediate == kLess) return add({Opcode::greater, lane, a, b});
    if (test.a == b && test.b == a && test.immediate == kGreater) return add({Opcode::lesser, lane, a, b});
  }
  return add({Opcode::select, lane, truth, a, b});
}

int Recording::call(const Call& function, Lane lane, int a, int b) {
  size_t number = 0;
  while (number < calls_.size() && !(calls_[number] == function)) ++number;
  if (number == calls_.size()) calls_.push_back(function);
  return add({Opcode::call, lane, a, b, kNone, static_cast<int64_t>(number)});
}

Recording& Recording::current() { return *current_recording; }

RecordingScope::RecordingScope(Recording& recording) : before_(current_recording) { current_recording = &recording; }
RecordingScope::~RecordingScope() { current_recording = before_; }

}  // namespace thalweg::code
