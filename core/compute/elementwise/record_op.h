// record_op: writes down the instructions of an element-wise op on any mixture of element types that lanes can hold.
//
// float16 and bfloat16 are floats in the lanes, rounded after each op as the ops' own loops do; smaller integers are
// int32, and only converted, selected and copied. A chain has lanes of one width: types of 64 bits do not mix with
// others, except for bool.
#pragma once

#include <span>
#include <string>

#include "code/memory.h"
#include "tensor/dtype.h"

namespace thalweg {

// Whether lanes can hold elements of the type; their width in bytes (0: any), and how they lie in memory.
struct LaneType {
  bool known = false;
  code::Lane lane = code::Lane::float32;
  int width = 4;
  code::Memory memory = code::Memory::lane;
};
LaneType lane_type(DType dtype);

// The value of the op for the values of its operands; code::kNone if it cannot be recorded, or not for whole vectors.
// `record` is what records the functor; without it the registered kernel's.
int record_op(code::Recording& recording, const std::string& op, std::span<const DType> types, DType result,
              std::span<const int> operands,
              int (*record)(code::Recording& recording, code::Lane lane, const int* operands) = nullptr);

// Whether `record_op` can do it.
bool can_record(const std::string& op, std::span<const DType> types, DType result);

}  // namespace thalweg
