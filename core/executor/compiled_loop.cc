// Moving tensors into the slots of a compiled loop and back.
#include "executor/compiled_loop.h"

#include <algorithm>

#include "executor/step.h"

namespace thalweg {
namespace {

using code::Slot;

// The code runs for so many iterations, some tens of microseconds, before it looks whether the step goes on.
constexpr int64_t kIterations = 16384;

template <typename Stored>
void fill_lanes(const Tensor& from, Slot* slots, const LoopValue& value) {
  const int64_t n = from.num_elements(), lanes = code::kVectorBytes / static_cast<int64_t>(sizeof(Stored));
  for (size_t v = 0; v < value.vectors.size(); ++v) {
    auto* to = reinterpret_cast<Stored*>(slots[value.vectors[v]].bytes);
    for (int64_t i = 0; i < lanes; ++i) {
      // Lanes behind the last element repeat it: nothing unusual happens there.
      const int64_t element = std::min(static_cast<int64_t>(v) * lanes + i, n - 1);
      if (value.dtype == DType::boolean)
        to[i] = from.flat<bool>()[element] ? static_cast<Stored>(-1) : 0;
      else
        to[i] = from.flat<Stored>()[element];
    }
  }
}
void fill(const Tensor& from, Slot* slots, const LoopValue& value) {
  value.has_wide_lanes() ? fill_lanes<int64_t>(from, slots, value) : fill_lanes<int32_t>(from, slots, value);
}

template <typename Stored>
void read_lanes(const Slot* slots, const LoopValue& value, Tensor& to) {
  const int64_t n = to.num_elements(), lanes = code::kVectorBytes / static_cast<int64_t>(sizeof(Stored));
  for (int64_t i = 0; i < n; ++i) {
    const Stored lane = reinterpret_cast<const Stored*>(slots[value.vectors[i / lanes]].bytes)[i % lanes];
    if (value.dtype == DType::boolean)
      to.flat<bool>()[i] = lane != 0;
    else
      to.flat<Stored>()[i] = lane;
  }
}
Tensor read(const Slot* slots, const LoopValue& value) {
  Tensor to(value.dtype, value.shape);
  value.has_wide_lanes() ? read_lanes<int64_t>(slots, value, to) : read_lanes<int32_t>(slots, value, to);
  return to;
}

}  // namespace

bool CompiledLoop::fits(std::span<const Tensor> variables, std::span<const Tensor> invariants) const {
  for (size_t i = 0; i < operands_.size(); ++i) {
    const Tensor& tensor = i < num_variables_ ? variables[i] : invariants[i - num_variables_];
    if (tensor.dtype() != operands_[i].dtype || !(tensor.shape() == operands_[i].shape)) return false;
  }
  return true;
}

bool CompiledLoop::run(std::span<Tensor> variables, std::span<const Tensor> invariants, Step& step) const {
  constexpr int kFew = 64;
  Slot few[kFew];
  std::unique_ptr<Slot[]> many(code_->num_slots() > kFew ? new Slot[code_->num_slots()] : nullptr);
  Slot* slots = many ? many.get() : few;
  for (size_t i = 0; i < operands_.size(); ++i)
    fill(i < num_variables_ ? variables[i] : invariants[i - num_variables_], slots, operands_[i]);
  for (const auto& [value, tensor] : constants_) fill(tensor, slots, value);
  code::LoopCode::Outcome outcome;
  do {
    if (step.interrupted()) fail(Code::cancelled, "the step was cancelled inside a loop");
    outcome = code_->run(slots, kIterations);
    if (outcome == code::LoopCode::Outcome::limit) step.tick();
  } while (outcome == code::LoopCode::Outcome::limit);
  for (size_t i = 0; i < num_variables_; ++i) variables[i] = read(slots, operands_[i]);
  return outcome == code::LoopCode::Outcome::ended;
}

}  // namespace thalweg
