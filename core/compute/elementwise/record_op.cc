// Recording casts, selections, and the functors of element-wise kernels.
#include "compute/elementwise/record_op.h"

#include <algorithm>

#include "code/recorded.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

using code::kNone;
using code::Lane;
using code::Memory;
using code::Opcode;
using code::Recorded;
using code::Recording;

// A float rounded to one that the type has.
int rounded(Recording& recording, DType type, int value) {
  if (type == DType::float16)
    return recording.add({Opcode::convert, Lane::float32, value, kNone, kNone, code::kToHalf});
  if (type != DType::bfloat16) return value;
  const code::RecordingScope scope(recording);
  using Bits = Recorded<int32_t>;
  const Bits bits = Bits::of(value), upper(static_cast<int32_t>(0xffff0000u));
  const Bits odd = Bits::of(recording.add({Opcode::shift_right, Lane::int32, value, kNone, kNone, 16})) & 1;
  return select((bits & INT32_MAX) > 0x7f800000, (bits | 0x00400000) & upper, (bits + 0x7fff + odd) & upper).value;
}

// An int32 as the type stores it.
int wrapped(Recording& recording, DType type, int value) {
  const Memory memory = lane_type(type).memory;
  if (memory == Memory::lane) return value;
  const bool is_byte = memory == Memory::uint8 || memory == Memory::int8;
  const bool is_signed = memory == Memory::int8 || memory == Memory::int16;
  const int64_t shift = is_byte ? 24 : 16;
  const int up = recording.add({Opcode::shift_left, Lane::int32, value, kNone, kNone, shift});
  return recording.add(
      {is_signed ? Opcode::shift_right_signed : Opcode::shift_right, Lane::int32, up, kNone, kNone, shift});
}

int record_cast(Recording& recording, DType from_type, DType to_type, int value) {
  const LaneType from = lane_type(from_type), to = lane_type(to_type);
  if (from_type == to_type) return value;
  if (to.lane == Lane::truth)
    return recording.compare(code::kNotEqual, from.lane, value, recording.constant(from.lane, 0));
  if (from.lane == Lane::truth) {
    const code::RecordingScope scope(recording);
    const int one = to.lane == Lane::float32   ? Recorded<float>(1).value
                    : to.lane == Lane::float64 ? Recorded<double>(1).value
                                               : recording.constant(to.lane, 1);
    return recording.add({Opcode::bit_and, to.lane, value, one});
  }
  if (from.width == 8) return kNone;  // Only splats are converted between lanes of 64 bits.
  if (from.lane != to.lane)
    value = recording.add({Opcode::convert, to.lane, value, kNone, kNone, static_cast<int64_t>(from.lane)});
  return to.lane == Lane::float32 ? rounded(recording, to_type, value) : wrapped(recording, to_type, value);
}

// Whether the instructions from `first` on compute each lane for itself.
bool are_lanewise(const Recording& recording, size_t first) {
  const auto& list = recording.instructions();
  return std::none_of(list.begin() + static_cast<int64_t>(first), list.end(), [](const code::Instruction& i) {
    const bool crosses = i.op == Opcode::convert && i.immediate < code::kToHalf &&
                         (is_wide(i.lane) || is_wide(static_cast<Lane>(i.immediate)));
    const bool is_wide_shift = i.op == Opcode::shift_right_signed && is_wide(i.lane);
    return crosses || is_wide_shift || (i.op == Opcode::mul && i.lane == Lane::int64) || i.op == Opcode::quotient ||
           i.op == Opcode::remainder || i.op == Opcode::call;
  });
}

}  // namespace

LaneType lane_type(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return {true, Lane::float32};
    case DType::float64:
      return {true, Lane::float64, 8};
    case DType::int32:
      return {true, Lane::int32};
    case DType::int64:
      return {true, Lane::int64, 8};
    case DType::boolean:
      return {true, Lane::truth, 0, Memory::boolean};
    case DType::uint8:
      return {true, Lane::int32, 4, Memory::uint8};
    case DType::int8:
      return {true, Lane::int32, 4, Memory::int8};
    case DType::uint16:
      return {true, Lane::int32, 4, Memory::uint16};
    case DType::int16:
      return {true, Lane::int32, 4, Memory::int16};
    case DType::float16:
      return {true, Lane::float32, 4, Memory::float16};
    case DType::bfloat16:
      return {true, Lane::float32, 4, Memory::bfloat16};
    default:
      return {};
  }
}

int record_op(Recording& recording, const std::string& op, std::span<const DType> types, DType result,
              std::span<const int> operands, int (*record)(Recording&, Lane, const int*)) {
  const LaneType made = lane_type(result);
  int width = made.width;
  for (DType type : types) {
    const LaneType lane = lane_type(type);
    if (!lane.known || !made.known || (lane.width != 0 && width != 0 && lane.width != width)) return kNone;
    width = std::max(width, lane.width);
  }
  const size_t first = recording.instructions().size();
  int value = kNone;
  if (op == "Cast") {
    value = types.size() == 1 ? record_cast(recording, types[0], result, operands[0]) : kNone;
  } else if (op == "Select" || op == "SelectV2") {
    if (types.size() != 3 || types[0] != DType::boolean || types[1] != result || types[2] != result) return kNone;
    // Not `Recording::select`: the smaller of two numbers as one instruction would flush subnormal ones to zero.
    value = recording.add({Opcode::select, made.lane, operands[0], operands[1], operands[2]});
  } else {
    if (types.empty() || types.size() > 2 || types.front() != types.back()) return kNone;
    const LaneType lane = lane_type(types[0]);
    // Small integers would have to be wrapped after each op.
    if (lane.lane == Lane::int32 && lane.memory != Memory::lane) return kNone;
    if (result != types[0] && result != DType::boolean) return kNone;
    if (record == nullptr) {
      NodeDef def;
      def.op = op;
      def.attrs["T"] = types[0];
      record = Registry::global().elementwise(def).record;
    }
    const int both[] = {operands[0], operands.size() < 2 ? kNone : operands[1]};
    if (record != nullptr) value = record(recording, lane.lane, both);
    if (value != kNone && made.lane == Lane::float32) value = rounded(recording, result, value);
  }
  return value != kNone && are_lanewise(recording, first) ? value : kNone;
}

bool can_record(const std::string& op, std::span<const DType> types, DType result) {
  Recording recording;
  std::vector<int> operands;
  for (size_t i = 0; i < types.size(); ++i)
    operands.push_back(recording.parameter(static_cast<int>(i), lane_type(types[i]).lane));
  return record_op(recording, op, types, result, operands) != kNone;
}

}  // namespace thalweg
