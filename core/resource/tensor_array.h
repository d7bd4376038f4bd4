// TensorArray: a list of tensors that belongs to one step, with the rules that make it differentiable.
//
// An element is written once and, by default, read once: that is what makes writing and reading each other's gradients.
// The gradient of an array is another array, kept by the first under the name of the gradient computation that asked
// for it; it adds up the values written to one index, and an element that was never written reads as zeros. Storage
// grows with the highest index written, so a large size alone costs nothing. Thread-safe: iterations of a loop run at
// once.
#pragma once

#include <map>
#include <memory>
#include <mutex>
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
  std::map<std::string, std::shared_ptr<TensorArray>> gradients_;
};

}  // namespace thalweg
