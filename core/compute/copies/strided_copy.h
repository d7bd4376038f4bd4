// strided_copy: the one loop nest behind transposing, slicing, tiling, broadcasting, reversing, padding and joining.
//
// It copies a box of elements between two strided views. The order of the dimensions is free, so the copy sorts them by
// the destination's stride, merges those that are contiguous on both sides, copies whole runs with memcpy, and walks a
// transposed pair of dimensions in blocks that fit the first-level cache. Large boxes are spread over the cores.
//
// The caller guarantees that every element lies inside its buffer, that no two lie at one place in the destination, and
// that source and destination do not overlap.
#pragma once

#include <span>

#include "tensor/tensor.h"

namespace thalweg {

struct CopyDim {
  int64_t size;
  int64_t from;  // Stride in the source, in elements: 0 repeats, negative runs backwards.
  int64_t to;    // Stride in the destination, in elements: never 0 for a size above 1.
};

void strided_copy(DType dtype, const void* from, void* to, std::span<const CopyDim> dims);

// The strides of a contiguous tensor, in elements.
std::vector<int64_t> strides_of(const Shape& shape);

}  // namespace thalweg
