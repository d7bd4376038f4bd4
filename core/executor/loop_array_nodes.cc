// Reading and writing TensorArrays in compiled loops.
#include <algorithm>

#include "executor/loop_builder.h"

namespace thalweg {
namespace {

using code::kNone;
using code::Lane;
using code::Opcode;

}  // namespace

std::optional<LoopValue> LoopBuilder::array_node(const NodeDef& def, Operands operands) {
  const bool writes = def.op == "TensorArrayWriteV3";
  if (!in_body_ || (!writes && def.op != "TensorArrayReadV3") || operands.size() != (writes ? 4 : 3))
    return std::nullopt;
  const LoopValue &handle = operands[0], &index = operands[1];
  const auto place = std::find(array_pointers_.begin(), array_pointers_.end(), handle.pointer);
  if (place == array_pointers_.end() || index.dtype != DType::int32 || !index.is_splat() || index.is_outside())
    return std::nullopt;
  size_t number = 0;  // of the handle among the invariants
  for (auto left = place - array_pointers_.begin(); left >= 0; ++number)
    if (invariants_[number].dtype() == DType::resource) --left;
  --number;
  LoopArrayUse use{num_variables_ + number, writes, writes ? operands[2].dtype : def.output_dtypes[0], {}, 1};
  if (writes) {
    if (operands[3].is_outside() || use.dtype == DType::boolean || !lane_of(use.dtype)) return std::nullopt;
    use.element = operands[2].shape;
  } else {
    TensorArray* const array = array_of_handle(invariants_[number]);
    const std::optional<Tensor> rows = array == nullptr ? std::nullopt : array->unread_rows();
    if (!rows || rows->dtype() != use.dtype) return std::nullopt;
    use.element = rows->shape().removed(0);
  }
  std::optional<LoopValue> result = array_row(use, operands);
  if (!result) {
    auto made = std::make_unique<LoopBlock>();
    made->element_bytes = use.element.num_elements() * static_cast<int64_t>(size_of(use.dtype));
    result = block(std::move(made), writes ? Shape{} : use.element, def.output_dtypes[0],
                   writes ? operands : operands.first(2), writes ? &LoopBlock::write_array : &LoopBlock::read_array);
  }
  if (!result) return std::nullopt;
  const auto known = std::find_if(arrays_.begin(), arrays_.end(),
                                  [&](const LoopArrayUse& other) { return other.operand == use.operand; });
  if (known == arrays_.end())
    arrays_.push_back(use);
  else if (known->writes != writes || !(known->element == use.element) || known->dtype != use.dtype)
    return std::nullopt;
  else
    ++known->per_iteration;
  return result;
}

std::optional<LoopValue> LoopBuilder::array_row(const LoopArrayUse& use, Operands operands) {
  const LoopValue element{use.dtype, use.element, {}, false, {}};
  const int64_t n = use.element.num_elements(), lanes = lanes_of(element);
  if (use.dtype == DType::boolean || !lane_of(use.dtype) || (n != 1 && n % lanes != 0)) return std::nullopt;
  if (num_vectors(use.element, lanes) == 0 || (use.writes && operands[2].is_outside())) return std::nullopt;
  const Lane lane = *lane_of(use.dtype);
  const int row =
      recording_.add({Opcode::array_row, Lane::int64, recording_.parameter(operands[0].pointer, Lane::int64),
                      operands[1].vectors[0], kNone, num_rows_++});
  LoopValue result = use.writes ? operands[3] : element;
  for (size_t v = 0; v < num_vectors(use.element, lanes); ++v) {
    const int64_t place = n == 1 ? code::kOneElement : static_cast<int64_t>(v);
    if (use.writes)
      recording_.add({Opcode::array_store, lane, row, operands[2].vectors[v], kNone, place});
    else
      result.vectors.push_back(recording_.add({Opcode::array_load, lane, row, kNone, kNone, place}));
  }
  return result;
}

}  // namespace thalweg
