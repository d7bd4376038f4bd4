// SliceBox: the elements that a NumPy-style index selects, from begin, end, strides and five masks, for a given shape.
//
// Shared by the strided-slice kernels and by those that assign to a slice of a variable.
#pragma once

#include <span>

#include "compute/copies/strided_copy.h"
#include "kernel/kernel.h"

namespace thalweg {

struct SliceMasks {
  explicit SliceMasks(const Construction& c);
  int64_t begin, end, ellipsis, new_axis, shrink_axis;
};

struct SliceBox {
  int64_t offset = 0;           // Of the first selected element.
  std::vector<int64_t> sizes;   // Selected along each dimension of the input.
  std::vector<int64_t> stride;  // Distance between selected elements along each, in elements of the input.
  Shape shape;                  // Of the result: new dimensions inserted, single indices dropped.
  int64_t count = 0;

  // The dimensions of a copy out of the box (into it, with `into`) to a contiguous tensor.
  std::vector<CopyDim> copy_dims(bool into) const;
  // Whether the selected elements lie side by side, in order.
  bool contiguous() const;
};

// Throws for strides of 0, an index outside its dimension, more indices than dimensions, two ellipses.
SliceBox resolve_slice(const Shape& shape, const Tensor& begin, const Tensor& end, const Tensor& strides,
                       const SliceMasks& masks);

// The elements of the box as a tensor; shares the memory of `in` where they lie side by side.
Tensor read_slice(const Tensor& in, const SliceBox& box);

// Overwrites the box of `target` (which the caller may write) with `value`, broadcast to the box's shape.
void write_slice(Tensor& target, const SliceBox& box, const Tensor& value);

// `count` elements from `offset` on, sharing the memory unless they are a small part of it.
Tensor elements_of(const Tensor& in, int64_t offset, int64_t count, const Shape& shape);

}  // namespace thalweg
