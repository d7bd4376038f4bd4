// LoopArray: a TensorArray during one run of a compiled loop.
//
// The loop reads elements from the rows of one tensor, and writes them to rows of another; what it has read and written
// is noted, and told to the array at the end of the run, for the iterations that took place. An iteration that fails
// can so be repeated by the nodes. An array is either read or written by a loop.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "code/array_rows.h"
#include "resource/tensor_array.h"

namespace thalweg {

// How a loop uses an array.
struct LoopArrayUse {
  size_t operand = 0;  // of the loop: the handle
  bool writes = false;
  DType dtype = DType::invalid;
  Shape element;
  int per_iteration = 0;  // how many elements
};

struct LoopArray {
  TensorArray* array = nullptr;
  Tensor rows;
  std::vector<char> used;
  std::vector<int64_t> indices;
  code::ArrayRows view;  // of the three above: what the loop's code gets
};

// The arrays of a run, in the order of their uses; none if one of them cannot be used in this way. `handles[i]` is the
// handle of use i.
std::optional<std::vector<LoopArray>> open_arrays(std::span<const LoopArrayUse> uses,
                                                  std::span<const Tensor* const> handles);
// After `iterations`.
void close_arrays(std::span<const LoopArrayUse> uses, std::span<LoopArray> arrays, int64_t iterations);

// The array of a handle; null if it is none.
TensorArray* array_of_handle(const Tensor& handle);

}  // namespace thalweg
