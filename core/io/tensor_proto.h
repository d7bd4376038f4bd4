// TensorProto messages, written byte for byte as TensorFlow does, and read: the values are its raw content, or the
// repeated field of its element type.
//
// The bytes are not trusted: every length is checked, and `read` is false at the first malformed one. Values are not
// checked against the shape; a caller that makes a tensor of them compares the counts first.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace thalweg::tensor_proto {

// The fields of TensorProto.
constexpr int kDtype = 1, kShape = 2, kContent = 4, kFloats = 5, kDoubles = 6, kInts = 7, kStrings = 8, kComplex64s = 9,
              kInt64s = 10, kBools = 11, kComplex128s = 12, kHalves = 13, kUint32s = 16, kUint64s = 17;

// The field that holds the values of a type.
int field_of(DType dtype);
// Whether that field has numbers of fixed width, whose bytes are those of a tensor's elements.
bool has_fixed_width(DType dtype);

struct Values {
  uint64_t dtype = 0;
  std::vector<int64_t> dims;
  bool unknown_rank = false;
  std::string_view content;
  std::string_view packed;        // numbers of fixed width, if all of them are in one place,
  std::vector<uint64_t> numbers;  // else these, as their bits
  std::vector<std::string_view> strings;

  // How many elements of the type were given, in the repeated field.
  size_t given(DType dtype) const;
};

// The fields of a message, those of the values as of type `wanted`.
bool read(std::string_view message, DType wanted, Values& out);

// Appends the message of a tensor of this type and shape, up to its elements: those follow as `put_content`, or as one
// string after the other.
void put_head(std::string& out, DType dtype, std::span<const int64_t> dims);
void put_content(std::string& out, std::string_view bytes);
void put_string(std::string& out, std::string_view element);

// Fills a tensor from the repeated field: the last value is repeated for all that are left out; without values, zeros
// or empty strings.
void fill(const Values& values, Tensor& out);

}  // namespace thalweg::tensor_proto
