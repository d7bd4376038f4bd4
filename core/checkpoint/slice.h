// TensorSlice: a box within a tensor, as checkpoints of partitioned variables name it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace thalweg {

struct TensorSlice {
  static constexpr int64_t kAll = -1;
  struct Extent {
    int64_t start = 0;
    int64_t length = kAll;
    bool operator==(const Extent&) const = default;
  };
  std::vector<Extent> extents;
  bool operator==(const TensorSlice&) const = default;

  // The same with every length known; throws if it does not lie within `full`.
  TensorSlice within(const Shape& full) const;
  // The shape of a slice whose lengths are known.
  Shape shape() const;
  // Whether two slices with known lengths share an element, and the box that they share.
  bool intersect(const TensorSlice& other, TensorSlice* shared) const;
  std::string str() const;

  // As a TensorSliceProto, and back (`what` is for messages).
  std::string to_proto() const;
  static TensorSlice from_proto(std::string_view message, std::string_view what);
};

struct ShapeAndSlice {
  Shape shape;  // Of the whole tensor.
  TensorSlice slice;
};

// "4 2 0,2:-": the shape of the whole, then start and length in each dimension ("-": all of it).
ShapeAndSlice parse_shape_and_slice(const std::string& text);

// The key under which a checkpoint's index has a slice; sorts like (name, rank, starts and lengths).
std::string slice_key(std::string_view name, const TensorSlice& slice);

// Copies the elements of `box` from a tensor that holds the slice `source` into one that holds the slice `target`.
// All three are in the coordinates of the whole tensor, with lengths known.
void copy_box(const Tensor& from, const TensorSlice& source, Tensor& to, const TensorSlice& target,
              const TensorSlice& box);

}  // namespace thalweg
