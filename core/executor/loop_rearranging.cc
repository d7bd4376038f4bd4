// Nodes of compiled loops that only move elements: slices, paddings, transpositions, concatenations.
//
// Where each element of the result comes from is found by running the node's own kernel once, on numbers that count the
// elements of its operands.
#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <vector>

#include "executor/loop_builder.h"
#include "executor/run_node.h"

namespace thalweg {
namespace {

// Ops whose result has elements of the first operand, or zeros; the others are constants that say which.
constexpr std::string_view kOfFirst[] = {"Reshape",     "ExpandDims",      "Squeeze",        "Slice",   "StridedSlice",
                                         "Pad",         "Transpose",       "Tile",           "Reverse", "ReverseV2",
                                         "BroadcastTo", "MatrixTranspose", "MatrixDiagPart", "DiagPart"};

// The operands with elements of the result: the first so many. None if the op is another one.
std::optional<size_t> num_sources(const NodeDef& def, size_t operands) {
  if (def.op == "Pack") return operands;
  if (def.op == "ConcatV2" && operands > 1) return operands - 1;
  const bool is_known = std::find(std::begin(kOfFirst), std::end(kOfFirst), def.op) != std::end(kOfFirst);
  return is_known && operands > 0 ? std::optional<size_t>(1) : std::nullopt;
}

// The shape of a result of operands of these shapes, if they can be broadcast.
std::optional<Shape> broadcast_shape(const Shape& a, const Shape& b) {
  const Shape &longer = a.rank() < b.rank() ? b : a, &shorter = a.rank() < b.rank() ? a : b;
  const int missing = longer.rank() - shorter.rank();
  std::vector<int64_t> sizes;
  for (int d = 0; d < longer.rank(); ++d) {
    const int64_t one = longer[d], other = d < missing ? 1 : shorter[d - missing];
    if (one != other && one != 1 && other != 1) return std::nullopt;
    sizes.push_back(one == 1 ? other : one);
  }
  return Shape(sizes);
}

// first, first + 1, ... in a type that holds such numbers.
bool count_from(int64_t first, Tensor& to) {
  const auto fill = [&]<typename T>(T*) {
    for (int64_t i = 0; i < to.num_elements(); ++i) to.flat<T>()[i] = static_cast<T>(first + i);
    return true;
  };
  switch (to.dtype()) {
    case DType::float32:
      return fill(static_cast<float*>(nullptr));
    case DType::float64:
      return fill(static_cast<double*>(nullptr));
    case DType::int32:
      return fill(static_cast<int32_t*>(nullptr));
    case DType::int64:
      return fill(static_cast<int64_t*>(nullptr));
    default:
      return false;
  }
}

std::vector<int64_t> numbers_in(const Tensor& tensor) {
  std::vector<int64_t> found(static_cast<size_t>(tensor.num_elements()));
  dispatch(tensor.dtype(), Types<DType::float32, DType::float64, DType::int32, DType::int64>{}, [&]<typename T>() {
    std::transform(tensor.flat<T>(), tensor.flat<T>() + found.size(), found.begin(),
                   [](T x) { return static_cast<int64_t>(x); });
  });
  return found;
}

constexpr int64_t kMostElements = 4096;

// Elements of one operand at equal distances, or zeros (operand -1).
struct Run {
  int32_t operand, element, step, count;
};
// The elements with these numbers, as few runs: slices, paddings and rows that are repeated have a few each.
std::vector<Run> runs_of(std::span<const LoopValue> operands, std::span<const int64_t> from) {
  std::vector<Run> runs;
  for (int64_t number : from) {
    Run one{-1, static_cast<int32_t>(number) - 1, 0, 1};
    if (number > 0) one.operand = 0;
    while (number > 0 && one.element >= operands[static_cast<size_t>(one.operand)].shape.num_elements())
      one.element -= static_cast<int32_t>(operands[static_cast<size_t>(one.operand++)].shape.num_elements());
    Run* const last = runs.empty() || runs.back().operand != one.operand ? nullptr : &runs.back();
    if (last != nullptr && last->count == 1) last->step = one.element - last->element;
    if (last != nullptr && one.element == last->element + last->count * last->step)
      ++last->count;
    else
      runs.push_back(one);
  }
  return runs;
}

}  // namespace

std::optional<LoopValue> LoopBuilder::rearranged(const NodeDef& def, const Kernel* kernel, Operands operands) {
  const std::optional<size_t> sources = num_sources(def, operands.size());
  if (!sources || kernel == nullptr || operands.size() > LoopBlock::kMostOperands) return std::nullopt;
  std::vector<Tensor> inputs;
  int64_t elements = 1;  // Zero stands for a zero.
  for (size_t k = 0; k < operands.size(); ++k) {
    const LoopValue& value = operands[k];
    if (k >= *sources) {
      if (!value.constant.defined()) return std::nullopt;
      inputs.push_back(value.constant);
      continue;
    }
    if (value.dtype == DType::boolean || value.shape.num_elements() > kMostElements) return std::nullopt;
    inputs.emplace_back(value.dtype, value.shape);
    if (!count_from(elements, inputs.back())) return std::nullopt;
    elements += value.shape.num_elements();
  }
  Tensor result;
  try {
    compute_node({program_.device_, step_}, def, const_cast<Kernel&>(*kernel), inputs.data(), &result, {});
  } catch (const Error&) {
    return std::nullopt;  // The node will report it.
  }
  const std::vector<int64_t> from = numbers_in(result);
  return moved(operands.first(*sources), result.shape(), from);
}

std::optional<LoopValue> LoopBuilder::moved(Operands operands, const Shape& shape, std::span<const int64_t> from) {
  bool is_same = operands.size() == 1 && operands[0].shape.num_elements() == shape.num_elements();
  for (size_t i = 0; i < from.size() && is_same; ++i) is_same = from[i] == static_cast<int64_t>(i) + 1;
  if (is_same) {
    LoopValue value = operands[0];
    value.shape = shape;
    if (value.constant.defined()) value.constant = value.constant.reshaped(shape);
    return value;
  }
  const std::vector<Run> runs = runs_of(operands, from);
  auto made = std::make_unique<LoopBlock>();
  const auto move = [runs]<typename T>(const void* const* sources, T* to) {
    for (const Run& run : runs) {
      const T* const first = run.operand < 0 ? nullptr : static_cast<const T*>(sources[run.operand]) + run.element;
      if (run.step == 0) {
        std::fill_n(to, run.count, first == nullptr ? T(0) : *first);
      } else if (run.step == 1) {
        std::copy_n(first, run.count, to);
      } else {
        for (int32_t i = 0; i < run.count; ++i) to[i] = first[i * run.step];
      }
      to += run.count;
    }
  };
  // A constant that is one element is no parameter: its slot is filled as any other's.
  const bool wide = size_of(operands[0].dtype) == 8;
  made->work = {shape, [move, wide](const void* const* sources, void* to) {
                  wide ? move(sources, static_cast<int64_t*>(to)) : move(sources, static_cast<int32_t*>(to));
                }};
  return block(std::move(made), shape, operands[0].dtype, operands);
}

std::optional<std::vector<LoopValue>> LoopBuilder::broadcast(Operands operands) {
  Shape shape = operands[0].shape;
  for (const LoopValue& value : operands) {
    const std::optional<Shape> joint = broadcast_shape(shape, value.shape);
    if (!joint || value.dtype == DType::boolean) return std::nullopt;
    shape = *joint;
  }
  if (shape.num_elements() > kMostElements) return std::nullopt;
  std::vector<LoopValue> found;
  for (const LoopValue& value : operands) {
    if (value.is_splat() || value.shape.num_elements() == shape.num_elements()) {
      found.push_back(value);
      continue;
    }
    std::vector<int64_t> from(static_cast<size_t>(shape.num_elements()));
    const int missing = shape.rank() - value.shape.rank();
    for (int64_t i = 0; i < shape.num_elements(); ++i) {
      int64_t left = i, place = 0, stride = 1;
      for (int d = shape.rank() - 1; d >= missing; --d) {
        const int64_t size = value.shape[d - missing];
        place += (size == 1 ? 0 : left % shape[d]) * stride;
        stride *= size;
        left /= shape[d];
      }
      from[static_cast<size_t>(i)] = place + 1;
    }
    std::optional<LoopValue> moved_value = moved(std::span(&value, 1), shape, from);
    if (!moved_value) return std::nullopt;
    found.push_back(std::move(*moved_value));
  }
  return found;
}

}  // namespace thalweg
