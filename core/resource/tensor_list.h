// TensorList: a list of tensors of one element type, the value that a scalar of type `variant` holds.
//
// A list is immutable for everyone but its only owner: kernels change a list in place if no other variant refers to it
// (kernels/tensor_list_values.h decides), and a copy otherwise. So n appends to one list take n steps of work. Not
// locked: readers of a shared list never meet a writer.
//
// An element may be *unset* (an undefined Tensor): reserved, and never written. It reads as zeros. Only elements up to
// the last written one take memory, so a large length alone costs nothing. `element_shape` is a promise about all
// elements; kernels check it. Lists may hold lists (`dtype` variant), to a bounded depth.
#pragma once

#include <span>
#include <vector>

#include "tensor/resource_handle.h"
#include "tensor/tensor.h"

namespace thalweg {

class TensorList : public Resource {
 public:
  // More elements than any loop keeps, and few enough that a wrong index cannot exhaust the memory.
  static constexpr int64_t kMostElements = int64_t{1} << 25;
  // Destroying, adding and zeroing nested lists recurses.
  static constexpr int kDeepest = 200;

  // `most`: how many elements pushes may make; negative: any number.
  TensorList(DType dtype, PartialShape element_shape, int64_t length = 0, int64_t most = -1)
      : dtype_(dtype), element_shape_(std::move(element_shape)), length_(length), most_(most) {}
  const char* kind() const override { return "a list of tensors"; }

  DType dtype() const { return dtype_; }
  const PartialShape& element_shape() const { return element_shape_; }
  void set_element_shape(PartialShape shape) { element_shape_ = std::move(shape); }
  int64_t length() const { return length_; }
  int64_t most() const { return most_; }
  // The first elements, the last written one included; those after them are unset.
  std::span<const Tensor> stored() const { return values_; }
  std::span<Tensor> stored() { return values_; }
  // Undefined if unset. The index must be valid.
  Tensor at(int64_t index) const {
    return index < static_cast<int64_t>(values_.size()) ? values_[static_cast<size_t>(index)] : Tensor();
  }

  // The index must be valid; fails where it is beyond kMostElements, or the value is a list nested too deeply.
  void set(int64_t index, Tensor value);
  void push(Tensor value) {
    ++length_;
    set(length_ - 1, std::move(value));
  }
  // Takes the last element of a list that is not empty; undefined if unset.
  Tensor pop();
  void resize(int64_t length);

 private:
  DType dtype_;
  PartialShape element_shape_;
  int64_t length_;
  int64_t most_;
  int depth_ = 1;  // of lists in lists
  std::vector<Tensor> values_;
};

// The shape that both describe. Fails if they contradict each other.
PartialShape merged(const PartialShape& a, const PartialShape& b);
inline PartialShape exactly(const Shape& shape) { return {true, shape.to_vector()}; }

}  // namespace thalweg
