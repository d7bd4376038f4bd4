// Moving tensors into the slots of a compiled loop and back.
#include "executor/compiled_loop.h"

#include <algorithm>
#include <cstring>

#include "executor/step.h"

namespace thalweg {
namespace {

using code::Slot;

// The code runs for so many iterations, some tens of microseconds, before it looks whether the step goes on.
constexpr int64_t kIterations = 16384;
// With products and the like an iteration may take some microseconds.
constexpr int64_t kIterationsOfBlocks = 256;

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
  if (value.is_outside()) {
    const void* address = from.raw();
    std::memcpy(slots[value.pointer].bytes, &address, sizeof(address));
    return;
  }
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

// Lanes behind the last element repeat it.
template <typename Stored>
void repeat_last(void* result, int64_t count) {
  auto* elements = static_cast<Stored*>(result);
  for (int64_t i = count; i * static_cast<int64_t>(sizeof(Stored)) % code::kVectorBytes != 0; ++i)
    elements[i] = elements[count - 1];
}

Tensor read(const Slot* slots, const LoopValue& value) {
  Tensor to(value.dtype, value.shape);
  value.has_wide_lanes() ? read_lanes<int64_t>(slots, value, to) : read_lanes<int32_t>(slots, value, to);
  return to;
}

}  // namespace

int LoopBlock::run(const void* state, void* memory) noexcept {
  const auto& block = *static_cast<const LoopBlock*>(state);
  auto* slots = static_cast<Slot*>(memory);
  const void* operands[kMostOperands] = {};
  for (size_t k = 0; k < block.pointers.size(); ++k) {
    if (block.pointers[k] != code::kNone)
      std::memcpy(&operands[k], slots[block.pointers[k]].bytes, sizeof(void*));
    else if (block.places[k] >= 0)
      operands[k] = slots[block.places[k]].bytes;
  }
  void* result = slots[block.places.back()].bytes;
  try {
    block.work.run(operands, result);
  } catch (...) {
    return 0;  // The node will report it.
  }
  block.wide ? repeat_last<int64_t>(result, block.count) : repeat_last<int32_t>(result, block.count);
  return 1;
}

int LoopBlock::read_array(const void* state, void* memory) noexcept {
  const auto& block = *static_cast<const LoopBlock*>(state);
  auto* slots = static_cast<Slot*>(memory);
  code::ArrayRows* array = nullptr;
  int32_t index = 0;
  std::memcpy(&array, slots[block.pointers[0]].bytes, sizeof array);
  std::memcpy(&index, slots[block.places[1]].bytes, sizeof index);
  const char* from = array->use(index);
  if (from == nullptr) return 0;
  void* result = slots[block.places.back()].bytes;
  if (block.element_bytes == sizeof(float)) {
    int32_t element = 0;
    std::memcpy(&element, from, sizeof element);
    std::fill_n(static_cast<int32_t*>(result), code::kVectorBytes / sizeof element, element);
    return 1;
  }
  std::memcpy(result, from, static_cast<size_t>(block.element_bytes));
  block.wide ? repeat_last<int64_t>(result, block.count) : repeat_last<int32_t>(result, block.count);
  return 1;
}

int LoopBlock::write_array(const void* state, void* memory) noexcept {
  const auto& block = *static_cast<const LoopBlock*>(state);
  auto* slots = static_cast<Slot*>(memory);
  code::ArrayRows* array = nullptr;
  int32_t index = 0;
  std::memcpy(&array, slots[block.pointers[0]].bytes, sizeof array);
  std::memcpy(&index, slots[block.places[1]].bytes, sizeof index);
  char* to = array->use(index);
  if (to == nullptr) return 0;
  const void* element = slots[block.places[2] < 0 ? 0 : block.places[2]].bytes;
  if (block.pointers[2] != code::kNone) std::memcpy(&element, slots[block.pointers[2]].bytes, sizeof element);
  if (block.element_bytes == sizeof(float))
    std::memcpy(to, element, sizeof(float));
  else
    std::memcpy(to, element, static_cast<size_t>(block.element_bytes));
  slots[block.places.back()] = slots[block.places[3]];
  return 1;
}

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
  std::vector<const Tensor*> handles;
  for (const LoopArrayUse& use : arrays_) handles.push_back(&invariants[use.operand - num_variables_]);
  std::optional<std::vector<LoopArray>> arrays = open_arrays(arrays_, handles);
  if (!arrays) return false;
  for (size_t k = 0; k < arrays_.size(); ++k) {
    const code::ArrayRows* const array = &(*arrays)[k].view;
    std::memcpy(slots[operands_[arrays_[k].operand].pointer].bytes, &array, sizeof array);
  }
  code::LoopCode::Outcome outcome;
  int64_t iterations = 0;
  do {
    if (step.interrupted()) fail(Code::cancelled, "the step was cancelled inside a loop");
    const code::LoopCode::Result done = code_->run(slots, blocks_.empty() ? kIterations : kIterationsOfBlocks);
    outcome = done.outcome;
    iterations += done.iterations;
    if (outcome == code::LoopCode::Outcome::limit) step.tick();
  } while (outcome == code::LoopCode::Outcome::limit);
  close_arrays(arrays_, *arrays, iterations);
  for (size_t i = 0; i < num_variables_; ++i) variables[i] = read(slots, operands_[i]);
  return outcome == code::LoopCode::Outcome::ended;
}

}  // namespace thalweg
