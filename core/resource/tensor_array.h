// TensorArray: a list of tensors that belongs to one step, with the rules that make it differentiable.
//
// An element is written once and, by default, read once: that is what makes writing and reading each other's gradients.
// The gradient of an array is another array, kept by the first under the name of the gradient computation that asked
// for it; it adds up the values written to one index, and an element that was never written reads as zeros. Storage
// grows with the highest index written, so a large size alone costs nothing. Elements that are all written at once, as
// a value that is unstacked, stay one tensor until one of them is used alone. Thread-safe: iterations of a loop run at
// once.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "tensor/resource_handle.h"
#include "tensor/tensor.h"

namespace thalweg {

class TensorArray : public Resource {
 public:
  struct Options {
    DType dtype = DType::float32;
    PartialShape element_shape;
    bool dynamic_size = false;
    bool clear_after_read = true;
    bool identical_element_shapes = false;
    bool is_gradient = false;
  };
  TensorArray(std::string name, Options options, int64_t size);
  const char* kind() const override { return "a TensorArray"; }
  const std::string& name() const { return name_; }
  DType dtype() const { return options_.dtype; }

  int64_t size();
  PartialShape element_shape();
  void write(std::span<const int64_t> indices, std::span<Tensor> values);
  std::vector<Tensor> read(std::span<const int64_t> indices);
  // All elements, in order. Of a gradient array, those of the value that was split into the array: it may have grown
  // since then.
  std::vector<Tensor> read_all();
  // All elements as the rows of one tensor. The first is false, and the second gives nothing, where elements are there
  // already or have to be looked at one by one: then `write` and `read` say what is wrong, or do it.
  bool write_whole(const Tensor& rows);
  std::optional<Tensor> read_whole(int64_t count);

  // For compiled loops (executor/loop_arrays.h), which read and write many elements before the array hears of it.
  // The elements, if they are one tensor, and none was cleared.
  std::optional<Tensor> unread_rows();
  bool clears_after_read() const { return options_.clear_after_read; }
  // Whether no element was written, and elements of this type and shape may be, without making the array larger.
  bool awaits(DType dtype, const Shape& element);
  void mark_read(std::span<const int64_t> indices);
  // Rows of a tensor as elements.
  void write_rows(std::span<const int64_t> indices, const Tensor& rows);

  // Forgets the elements; every later use fails.
  void close();
  // The array of gradients for this source, made at the first call. `prepended` are additional leading dimensions of
  // its elements.
  std::shared_ptr<TensorArray> gradient(const std::string& source, std::span<const int64_t> prepended);
  // To be called before a value is split into that many elements. Makes the array of that size, if it may change its
  // size; fails if it may not and has another.
  void begin_split(int64_t size);

 private:
  struct Element {
    Tensor value;
    Shape shape;  // of the value, also after it is gone
    bool has_shape = false;
    bool written = false;
    bool read = false;
  };
  void check_open() const;
  // Makes elements of `whole_`.
  void separate();
  Element& element(int64_t index);
  void write_one(int64_t index, Tensor value);
  Tensor read_one(int64_t index);

  const std::string name_;
  Options options_;
  std::mutex mutex_;  // guards everything below, and options_
  int64_t size_;
  int64_t split_size_ = -1;           // how many elements the value had that was split into this array; -1: none was
  int64_t concat_size_ = -1;          // of gradients: split_size_ of the array that they belong to; -1: read all
  int64_t gradient_split_size_ = -1;  // of gradients: concat_size_ of the array that they belong to
  bool closed_ = false;
  std::vector<Element> elements_;  // the first elements_.size() of size_
  // In the place of `elements_`: all of size_, written; after they were read with clear_after_read only the shape
  // counts.
  Tensor whole_;
  Shape whole_shape_;
  bool has_whole_ = false, whole_is_read_ = false;
  std::map<std::string, std::shared_ptr<TensorArray>> gradients_;
};

}  // namespace thalweg
