// Recording the nodes of a loop.
#include "executor/loop_builder.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "code/recorded.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

using code::kNone;
using code::Lane;
using code::Opcode;

constexpr size_t kMostVectors = 32;  // of a value
constexpr size_t kMostInstructions = 4000;

// Whether a value of shape `a` has an element for each of shape `b`: they differ by leading ones at most.
bool has_same_elements(const Shape& a, const Shape& b) {
  if (a.num_elements() != b.num_elements() || a.rank() > b.rank()) return false;
  return std::equal(a.begin(), a.end(), b.begin() + (b.rank() - a.rank()));
}

// The shape of an op on these values: one shape, or scalars beside it.
const Shape* common_shape(std::span<const LoopValue> operands) {
  const Shape* shape = nullptr;
  for (const LoopValue& value : operands) {
    const Shape& s = value.shape;
    if (shape == nullptr || s.num_elements() > shape->num_elements() ||
        (s.num_elements() == shape->num_elements() && s.rank() > shape->rank()))
      shape = &s;
  }
  for (const LoopValue& value : operands)
    if (!has_same_elements(value.shape, *shape) && !(value.is_splat() && value.shape.rank() <= shape->rank()))
      return nullptr;
  return shape;
}

}  // namespace

std::optional<Lane> lane_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return Lane::float32;
    case DType::float64:
      return Lane::float64;
    case DType::int32:
      return Lane::int32;
    case DType::int64:
      return Lane::int64;
    case DType::boolean:
      return Lane::truth;
    default:
      return std::nullopt;
  }
}

int64_t lanes_of(const LoopValue& value) { return value.has_wide_lanes() ? 4 : 8; }

size_t num_vectors(const Shape& shape, int64_t lanes) {
  const int64_t n = shape.num_elements();
  return n > static_cast<int64_t>(kMostVectors) * lanes ? 0 : static_cast<size_t>((n + lanes - 1) / lanes);
}

std::unique_ptr<const CompiledLoop> LoopBuilder::compile(std::span<const Tensor> variables,
                                                         std::span<const Tensor> invariants) {
  auto made = std::make_unique<CompiledLoop>();
  invariants_ = invariants;
  num_variables_ = variables.size();
  std::vector<std::vector<LoopValue>> values;  // variables, invariants, outputs of the nodes
  for (std::span<const Tensor> tensors : {variables, invariants}) {
    for (const Tensor& tensor : tensors) {
      const int first = num_parameters_;
      std::optional<LoopValue> value = parameter(tensor);
      if (!value && tensors.data() == invariants.data()) value = outside(tensor);
      if (!value) return nullptr;
      values.push_back({*value});
      made->operands_.push_back(*value);
      if (tensor.dtype() == DType::resource) array_pointers_.push_back(value->pointer);
      for (size_t v = 0; v < value->vectors.size(); ++v)
        made->operands_.back().vectors[v] = first + static_cast<int>(v);
    }
  }
  code::LoopPlan plan{};
  for (size_t i = 0; i < variables.size(); ++i) plan.num_variables += static_cast<int>(values[i][0].vectors.size());
  for (size_t i = 0; i < program_.items_.size(); ++i) {
    if (i == program_.num_condition_) plan.condition_end = static_cast<int>(recording_.instructions().size());
    const LoopProgram::Item& item = program_.items_[i];
    in_body_ = i >= program_.num_condition_;
    std::vector<LoopValue> operands;
    for (const LoopSource& input : item.inputs) operands.push_back(values[input.source][input.output]);
    const size_t inputs = std::min(operands.size(), item.def.input_dtypes.size());
    const std::span<const LoopValue> all(operands);
    values.push_back(outputs(item.def, item.kernel.get(), all.first(inputs), all.subspan(inputs)));
    if (values.back().empty() || recording_.instructions().size() > kMostInstructions) return nullptr;
  }
  if (program_.num_condition_ == program_.items_.size())
    plan.condition_end = static_cast<int>(recording_.instructions().size());
  const LoopValue& predicate = values[program_.predicate_.source][program_.predicate_.output];
  if (predicate.dtype != DType::boolean || !predicate.is_splat() || !predicate.branches.empty()) return nullptr;
  plan.predicate = predicate.vectors[0];
  for (size_t k = 0; k < variables.size(); ++k) {
    const LoopSource& from = program_.next_[k];
    const LoopValue &next = values[from.source][from.output], &variable = values[k][0];
    if (next.dtype != variable.dtype || !(next.shape == variable.shape) || !next.branches.empty() ||
        (next.wide != variable.wide && !next.is_splat()))
      return nullptr;
    plan.next.insert(plan.next.end(), next.vectors.begin(), next.vectors.end());
  }
  plan.num_parameters = num_parameters_;
  made->num_variables_ = variables.size();
  made->constants_ = std::move(constants_);
  made->blocks_ = std::move(blocks_);
  made->arrays_ = std::move(arrays_);
  made->code_ = code::LoopCode::compile(recording_, plan);
  if (made->code_ == nullptr) return nullptr;
  return made;
}

std::optional<LoopValue> LoopBuilder::parameter(const Tensor& like) {
  const std::optional<Lane> lane = lane_of(like.dtype());
  if (!lane) return std::nullopt;
  LoopValue value{like.dtype(), like.shape(), {}, false, {}};
  const size_t count = num_vectors(like.shape(), lanes_of(value));
  if (count == 0) return std::nullopt;
  for (size_t v = 0; v < count; ++v) value.vectors.push_back(recording_.parameter(num_parameters_++, *lane));
  return value;
}

LoopValue LoopBuilder::outside(const Tensor& like) {
  LoopValue value{like.dtype(), like.shape(), {}, false, {}};
  value.pointer = num_parameters_++;
  return value;
}

std::optional<LoopValue> LoopBuilder::constant(const Tensor& tensor) {
  const std::optional<Lane> lane = lane_of(tensor.dtype());
  if (!lane || tensor.num_elements() != 1) {
    const int first = num_parameters_;
    LoopValue value = parameter(tensor).value_or(LoopValue{});
    if (value.vectors.empty()) value = outside(tensor);
    LoopValue slots = value;
    for (size_t v = 0; v < slots.vectors.size(); ++v) slots.vectors[v] = first + static_cast<int>(v);
    constants_.emplace_back(std::move(slots), tensor);
    value.constant = tensor;
    return value;
  }
  uint64_t bits = 0;
  if (*lane == Lane::truth)
    bits = *tensor.flat<bool>() ? ~uint64_t{0} : 0;
  else
    std::memcpy(&bits, tensor.raw(), size_of(tensor.dtype()));
  LoopValue value{tensor.dtype(), tensor.shape(), {recording_.constant(*lane, bits)}, false, {}};
  value.constant = tensor;
  return value;
}

LoopValue LoopBuilder::filled(DType dtype, const Shape& shape, int number) {
  const code::RecordingScope scope(recording_);
  LoopValue value{dtype, shape, {}, false, {}};
  int vector = kNone;
  switch (dtype) {
    case DType::float32:
      vector = code::Recorded<float>(number).value;
      break;
    case DType::float64:
      vector = code::Recorded<double>(number).value;
      break;
    case DType::int32:
      vector = code::Recorded<int32_t>(number).value;
      break;
    case DType::int64:
      vector = code::Recorded<int64_t>(number).value;
      break;
    default:
      vector = code::Recorded<bool>(number != 0).value;
  }
  value.vectors.assign(num_vectors(shape, lanes_of(value)), vector);
  return value;
}

std::vector<LoopValue> LoopBuilder::outputs(const NodeDef& def, const Kernel* kernel, Operands operands,
                                            Operands guards) {
  std::optional<LoopValue> result;
  if (def.op == "Merge") {
    result = merge(operands);
  } else {
    // The innermost branch of an operand; the others must be computed in it, or around it.
    std::vector<std::pair<int, bool>> branches;
    for (Operands values : {operands, guards})
      for (const LoopValue& value : values)
        if (value.branches.size() > branches.size()) branches = value.branches;
    for (Operands values : {operands, guards})
      for (const LoopValue& value : values)
        if (!std::equal(value.branches.begin(), value.branches.end(), branches.begin())) return {};
    if (def.op == "Switch") return choose(operands);
    const bool in_branch = !branches.empty();
    int taken = kNone;
    for (const auto& [predicate, branch] : branches) {
      const int truth = branch ? predicate
                               : recording_.add({Opcode::bit_xor, Lane::truth, predicate,
                                                 recording_.constant(Lane::truth, ~uint64_t{0})});
      taken = taken == kNone ? truth : recording_.add({Opcode::bit_and, Lane::truth, taken, truth});
    }
    recording_.guard(taken);
    // A block costs too much to be computed for a branch that is not taken.
    in_branch_ = in_branch;
    result = node(def, in_branch ? nullptr : kernel, operands);
    recording_.guard(kNone);
    if (result) result->branches = std::move(branches);
  }
  std::vector<LoopValue> found;
  if (result) found.push_back(std::move(*result));
  return found;
}

std::vector<LoopValue> LoopBuilder::choose(Operands operands) {
  const LoopValue& predicate = operands[1];
  if (predicate.dtype != DType::boolean || !predicate.is_splat() || operands[0].is_outside()) return {};
  std::vector<LoopValue> found(2, operands[0]);
  for (int branch : {0, 1}) {
    // The predicate may be what is passed on, or computed in the branch that the conditional is in.
    found[branch].branches = std::max(operands[0].branches, predicate.branches,
                                      [](const auto& a, const auto& b) { return a.size() < b.size(); });
    found[branch].branches.emplace_back(predicate.vectors[0], branch == 1);
  }
  return found;
}

std::optional<LoopValue> LoopBuilder::merge(Operands operands) {
  if (operands.size() != 2) return std::nullopt;
  const bool first_is_true = !operands[0].branches.empty() && operands[0].branches.back().second;
  const LoopValue &then = operands[first_is_true ? 0 : 1], &otherwise = operands[first_is_true ? 1 : 0];
  if (then.branches.empty() || then.branches.size() != otherwise.branches.size()) return std::nullopt;
  std::vector<std::pair<int, bool>> expected = otherwise.branches;
  expected.back().second = true;
  if (otherwise.branches.back().second || then.branches != expected) return std::nullopt;
  if (then.dtype != otherwise.dtype || !(then.shape == otherwise.shape) || then.is_outside()) return std::nullopt;
  if (!then.is_splat() && then.wide != otherwise.wide) return std::nullopt;
  LoopValue result = then;
  result.constant.reset();
  result.branches.pop_back();
  // Not `Recording::select`, here and below: values are passed on as they are, also subnormal numbers.
  for (size_t v = 0; v < then.vectors.size(); ++v)
    result.vectors[v] = recording_.add(
        {Opcode::select, *lane_of(then.dtype), then.branches.back().first, then.vectors[v], otherwise.vectors[v]});
  return result;
}

std::optional<LoopValue> LoopBuilder::node(const NodeDef& def, const Kernel* kernel, Operands operands) {
  if (def.output_dtypes.size() != 1) return std::nullopt;
  if (def.op == "Const") return constant(def.attr<Tensor>("value"));
  if (operands.empty() || !lane_of(def.output_dtypes[0])) return std::nullopt;
  if (operands[0].dtype == DType::resource) return kernel == nullptr ? std::nullopt : array_node(def, operands);
  if (def.op == "Identity" || def.op == "StopGradient" || def.op == "PreventGradient") return operands[0];
  if ((def.op == "ZerosLike" || def.op == "OnesLike") && !operands[0].is_outside())
    return filled(operands[0].dtype, operands[0].shape, def.op == "OnesLike" ? 1 : 0);
  const bool is_fused = def.op == "_FusedElementwise";
  if (is_fused && def.find("reduction") != nullptr) return kernel == nullptr ? std::nullopt : reduced(def, operands);
  if (std::optional<LoopValue> result = rearranged(def, kernel, operands)) return result;
  if (dynamic_cast<const ShapedKernel*>(kernel) != nullptr) return shaped(kernel, def.output_dtypes[0], operands);
  for (const LoopValue& value : operands)
    if (value.is_outside()) return std::nullopt;
  if (def.op == "Cast") return cast(def, operands[0]);
  if ((def.op == "Select" || def.op == "SelectV2") && operands.size() == 3) return select(def, operands);
  return is_fused ? fused(def, operands) : elementwise(def, operands);
}

std::optional<LoopValue> LoopBuilder::shaped(const Kernel* kernel, DType dtype, Operands operands,
                                             std::unique_ptr<Kernel> owned) {
  const auto* const known = dynamic_cast<const ShapedKernel*>(kernel);
  if (known == nullptr) return std::nullopt;
  std::vector<ShapedOperand> shapes;
  for (const LoopValue& value : operands) shapes.push_back({value.dtype, value.shape, value.constant});
  try {
    std::optional<ShapedWork> work = known->for_shapes(shapes);
    if (!work) return std::nullopt;
    auto made = std::make_unique<LoopBlock>();
    const Shape shape = work->shape;
    made->work = std::move(*work);
    made->kernel = std::move(owned);
    return block(std::move(made), shape, dtype, operands);
  } catch (const Error&) {
    return std::nullopt;  // The node will report it.
  }
}

std::optional<LoopValue> LoopBuilder::block(std::unique_ptr<LoopBlock> block, const Shape& shape, DType dtype,
                                            Operands operands, int (*function)(const void*, void*)) {
  if (dtype == DType::boolean || operands.size() > LoopBlock::kMostOperands) return std::nullopt;
  code::Block recorded{function, block.get(), nullptr, {}, 0};
  for (const LoopValue& value : operands) {
    // In slots, truth values are as wide as numbers.
    if (value.dtype == DType::boolean && !value.is_outside()) return std::nullopt;
    recorded.operands.push_back(value.vectors);
    block->pointers.push_back(value.pointer);
  }
  LoopValue result{dtype, shape, {}, false, {}};
  recorded.num_parts = static_cast<int>(num_vectors(result.shape, lanes_of(result)));
  if (recorded.num_parts == 0) return std::nullopt;
  block->count = result.shape.num_elements();
  block->wide = result.has_wide_lanes();
  block->places.assign(operands.size() + 1, kNone);
  recorded.places = block->places.data();
  result.vectors = recording_.block(std::move(recorded), *lane_of(dtype));
  blocks_.push_back(std::move(block));
  return result;
}

// The reduction of what a chain of element-wise ops computes.
std::optional<LoopValue> LoopBuilder::reduced(const NodeDef& def, Operands operands) {
  for (const LoopValue& value : operands.first(operands.size() - 1))
    if (value.is_outside()) return std::nullopt;
  const std::optional<LoopValue> chain = fused(def, operands.first(operands.size() - 1));
  if (!chain) return std::nullopt;
  const LoopValue& axes = operands.back();
  NodeDef reduction;
  reduction.name = def.name;
  reduction.op = def.attr<std::string>("reduction");
  reduction.attrs["T"] = DType::float32;
  reduction.attrs["keep_dims"] = def.attr<bool>("keep_dims", false);
  reduction.input_dtypes = {DType::float32, axes.dtype};
  reduction.output_dtypes = {DType::float32};
  std::unique_ptr<Kernel> kernel = Registry::global().create(reduction, program_.device_);
  const Kernel* const made = kernel.get();
  return shaped(made, DType::float32, std::array{*chain, axes}, std::move(kernel));
}

bool LoopBuilder::are_lanewise(size_t first) const {
  const auto& list = recording_.instructions();
  return std::none_of(list.begin() + static_cast<int64_t>(first), list.end(), [](const code::Instruction& i) {
    return (i.op == Opcode::mul && i.lane == Lane::int64) || i.op == Opcode::quotient || i.op == Opcode::remainder;
  });
}

std::optional<LoopValue> LoopBuilder::elementwise(const NodeDef& def, Operands operands) {
  const Elementwise kernel = Registry::global().elementwise(def);
  const Shape* shape = common_shape(operands);
  if (shape == nullptr && !in_branch_) {
    const std::optional<std::vector<LoopValue>> spread = broadcast(operands);
    return spread && common_shape(*spread) != nullptr ? elementwise(def, *spread) : std::nullopt;
  }
  if (operands.size() > 2 || shape == nullptr || (kernel.record == nullptr && kernel.rows_of == nullptr))
    return std::nullopt;
  for (const LoopValue& value : operands)
    if (value.dtype != operands[0].dtype) return std::nullopt;
  LoopValue result{def.output_dtypes[0], *shape, {}, false, {}};
  const LoopValue& like = operands.size() > 1 && operands[0].is_splat() ? operands[1] : operands[0];
  if (operands.size() > 1 && !operands[0].is_splat() && !operands[1].is_splat() &&
      operands[0].has_wide_lanes() != operands[1].has_wide_lanes())
    return std::nullopt;
  const Lane lane = *lane_of(operands[0].dtype);
  result.wide = result.dtype == DType::boolean && like.has_wide_lanes();
  if (result.dtype != DType::boolean && result.dtype != like.dtype) return std::nullopt;
  const size_t count = num_vectors(*shape, like.has_wide_lanes() ? 4 : 8);
  for (size_t v = 0; v < count; ++v) {
    int vectors[2] = {kNone, kNone};
    for (size_t k = 0; k < operands.size(); ++k) vectors[k] = operands[k].vectors[operands[k].is_splat() ? 0 : v];
    const size_t first = recording_.instructions().size();
    int vector = kernel.record == nullptr ? kNone : kernel.record(recording_, lane, vectors);
    if (vector != kNone && !result.is_splat() && !are_lanewise(first)) return std::nullopt;
    if (vector == kNone) {
      if (kernel.rows_of == nullptr || lane == Lane::truth || result.dtype != like.dtype) return std::nullopt;
      const Rows rows = kernel.rows_of(like.dtype);
      const bool binary = operands.size() == 2;
      const void* function =
          binary ? reinterpret_cast<const void*>(rows.binary) : reinterpret_cast<const void*>(rows.unary);
      if (function == nullptr) return std::nullopt;
      const int64_t lanes = lanes_of(result);
      const int64_t elements = std::min(lanes, shape->num_elements() - static_cast<int64_t>(v) * lanes);
      // Both strides are 1 where both operands are one element.
      const bool splat_a = operands[0].is_splat() && elements > 1;
      const bool splat_b = binary && operands[1].is_splat() && elements > 1;
      vector = recording_.call({function, binary, elements, splat_a, splat_b}, lane, vectors[0], vectors[1]);
    }
    result.vectors.push_back(vector);
  }
  return result;
}

std::optional<LoopValue> LoopBuilder::fused(const NodeDef& def, Operands operands) {
  const auto ops = def.attr<std::vector<std::string>>("ops");
  const auto numbers = def.attr<std::vector<int64_t>>("operands");
  const auto dtypes = def.attr<std::vector<DType>>("dtypes", {});
  const size_t most = numbers.size() / ops.size();
  std::vector<LoopValue> values(operands.begin(), operands.end());
  for (size_t i = 0; i < ops.size(); ++i) {
    NodeDef op;
    op.op = ops[i];
    std::vector<LoopValue> chosen;
    for (size_t k = 0; k < most; ++k)
      if (numbers[most * i + k] >= 0) chosen.push_back(values[numbers[most * i + k]]);
    for (const LoopValue& value : chosen) op.input_dtypes.push_back(value.dtype);
    op.attrs["T"] = op.input_dtypes.back();
    op.output_dtypes = {dtypes.empty() ? DType::float32 : dtypes[i]};
    if (!lane_of(op.output_dtypes[0])) return std::nullopt;
    std::optional<LoopValue> result = op.op == "Cast"      ? cast(op, chosen[0])
                                      : chosen.size() == 3 ? select(op, chosen)
                                                           : elementwise(op, chosen);
    if (!result) return std::nullopt;
    values.push_back(std::move(*result));
  }
  return values.back();
}

std::optional<LoopValue> LoopBuilder::cast(const NodeDef& def, const LoopValue& from) {
  const DType to = def.output_dtypes[0];
  if (from.dtype == to) return from;
  const Lane from_lane = *lane_of(from.dtype), to_lane = *lane_of(to);
  LoopValue result{to, from.shape, {}, false, {}};
  result.wide = to == DType::boolean && from.has_wide_lanes();
  // Vectors of different widths hold different elements.
  if (!from.is_splat() && from.has_wide_lanes() != result.has_wide_lanes()) return std::nullopt;
  const bool through_general = from_lane == Lane::int64 || to_lane == Lane::int64;
  for (int vector : from.vectors) {
    int made = kNone;
    if (to == DType::boolean)
      made = recording_.compare(code::kNotEqual, from_lane, vector, filled(from.dtype, Shape{}, 0).vectors[0]);
    else if (from.dtype == DType::boolean)
      made = recording_.add({Opcode::bit_and, to_lane, vector, filled(to, Shape{}, 1).vectors[0]});
    else if (through_general && !from.is_splat())
      return std::nullopt;
    else
      made = recording_.add({Opcode::convert, to_lane, vector, kNone, kNone, static_cast<int64_t>(from_lane)});
    result.vectors.push_back(made);
  }
  return result;
}

std::optional<LoopValue> LoopBuilder::select(const NodeDef& def, Operands operands) {
  const LoopValue &truth = operands[0], &then = operands[1], &otherwise = operands[2];
  if (truth.dtype != DType::boolean || then.dtype != otherwise.dtype) return std::nullopt;
  if (def.op == "Select" &&
      (!(then.shape == otherwise.shape) || !(truth.shape.rank() == 0 || truth.shape == then.shape)))
    return std::nullopt;
  const Shape* shape = common_shape(operands);
  if (shape == nullptr) return std::nullopt;
  LoopValue result{then.dtype, *shape, {}, false, {}};
  const LoopValue& like = then.is_splat() ? otherwise : then;
  result.wide = like.wide;
  if (result.dtype == DType::boolean && like.is_splat()) result.wide = truth.has_wide_lanes();
  for (const LoopValue& value : operands)
    if (!value.is_splat() && value.has_wide_lanes() != result.has_wide_lanes()) return std::nullopt;
  const size_t count = num_vectors(*shape, lanes_of(result));
  const auto vector = [](const LoopValue& value, size_t v) { return value.vectors[value.is_splat() ? 0 : v]; };
  for (size_t v = 0; v < count; ++v)
    result.vectors.push_back(recording_.add(
        {Opcode::select, *lane_of(result.dtype), vector(truth, v), vector(then, v), vector(otherwise, v)}));
  return result;
}

}  // namespace thalweg
