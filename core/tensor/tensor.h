// Tensor: a dense array: an element type, a shape, and a reference to a buffer. Buffer: counted memory.
//
// Copying a Tensor shares its buffer. A buffer that more than one tensor refers to is immutable by convention: a kernel
// may write into an input only when `writable()` says that its reference is the only one. A *borrowed* buffer is memory
// with an owner outside of the core (a fed NumPy array): it is never written, and a kernel that keeps a tensor beyond
// the step copies it first (`owned()`). *Zeros* are shared, read-only memory: the values of the null device. A *device*
// buffer is in the memory of a device that the host cannot read (device/device.h): `raw()` is that device's address,
// and no kernel of the host gets such a tensor. A default-constructed Tensor is empty (`!defined()`); the executor uses
// that as the dead token.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>
#include <utility>

#include "memory/allocator.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace thalweg {

class Buffer {
 public:
  enum class Kind : uint8_t { own, borrowed, zeros, device };

  // Uninitialized memory for `count` elements; strings and handles are constructed empty.
  static Buffer* allocate(DType dtype, int64_t count);
  // Memory with another owner; `release(owner)` is called when the last reference goes.
  static Buffer* borrow(void* data, size_t bytes, void* owner, void (*release)(void*), Kind kind = Kind::borrowed);

  void ref() { refs_.fetch_add(1, std::memory_order_relaxed); }
  void unref() {
    if (refs_.load(std::memory_order_acquire) == 1 || refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy();
  }
  bool unique() const { return refs_.load(std::memory_order_acquire) == 1; }
  Kind kind() const { return kind_; }
  bool borrowed() const { return kind_ == Kind::borrowed; }
  // The owner of borrowed or device memory.
  void* owner() const { return owner_; }
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // Identifies the contents among all buffers of the process, for caches of values derived from them. A variable that
  // writes in place calls `changed`: the contents then get a new stamp.
  uint64_t stamp();
  void changed() { stamp_.store(0, std::memory_order_relaxed); }

 private:
  Buffer() = default;
  void destroy();

  std::atomic<int32_t> refs_{1};
  DType dtype_ = DType::invalid;
  Kind kind_ = Kind::own;
  std::atomic<uint64_t> stamp_{0};  // 0: none given yet
  int64_t count_ = 0;
  size_t bytes_ = 0;
  void* data_ = nullptr;
  void* owner_ = nullptr;
  void (*release_)(void*) = nullptr;
  Account* account_ = nullptr;
};

class Tensor {
 public:
  Tensor() = default;
  // Uninitialized elements.
  Tensor(DType dtype, Shape shape);
  // Takes over one reference to `buffer`.
  Tensor(DType dtype, Shape shape, Buffer* buffer, void* data)
      : buffer_(buffer), data_(data), shape_(std::move(shape)), dtype_(dtype) {}
  Tensor(const Tensor& other) : buffer_(other.buffer_), data_(other.data_), shape_(other.shape_), dtype_(other.dtype_) {
    if (buffer_) buffer_->ref();
  }
  Tensor(Tensor&& other) noexcept
      : buffer_(std::exchange(other.buffer_, nullptr)),
        data_(other.data_),
        shape_(std::move(other.shape_)),
        dtype_(std::exchange(other.dtype_, DType::invalid)) {}
  Tensor& operator=(const Tensor& other) {
    Tensor copy(other);
    return *this = std::move(copy);
  }
  Tensor& operator=(Tensor&& other) noexcept {
    if (this != &other) {
      if (buffer_) buffer_->unref();
      buffer_ = std::exchange(other.buffer_, nullptr);
      data_ = other.data_;
      shape_ = std::move(other.shape_);
      dtype_ = std::exchange(other.dtype_, DType::invalid);
    }
    return *this;
  }
  ~Tensor() {
    if (buffer_) buffer_->unref();
  }
  void reset() {
    if (buffer_) std::exchange(buffer_, nullptr)->unref();
    dtype_ = DType::invalid;
  }

  template <typename T>
  static Tensor scalar(T value) {
    Tensor t(dtype_of<T>, Shape{});
    t.flat<T>()[0] = std::move(value);
    return t;
  }
  template <typename T>
  static Tensor vector(std::span<const T> values) {
    Tensor t(dtype_of<T>, Shape{static_cast<int64_t>(values.size())});
    std::copy(values.begin(), values.end(), t.flat<T>());
    return t;
  }

  bool defined() const { return dtype_ != DType::invalid; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  int64_t dim(int i) const { return shape_[i]; }
  int64_t num_elements() const { return shape_.num_elements(); }
  size_t bytes() const { return static_cast<size_t>(num_elements()) * size_of(dtype_); }

  void* raw() const { return data_; }
  // The elements in row-major order. T must be the storage type of dtype().
  template <typename T>
  T* flat() {
    return static_cast<T*>(data_);
  }
  template <typename T>
  const T* flat() const {
    return static_cast<const T*>(data_);
  }
  std::string* strings() { return flat<std::string>(); }
  const std::string* strings() const { return flat<std::string>(); }
  // The value of a tensor with exactly one element.
  template <typename T>
  const T& item() const {
    require(num_elements() == 1, "expected a tensor with one element, got shape ", shape_);
    return flat<T>()[0];
  }

  // The buffer has no other reference, so a kernel may overwrite the elements.
  bool writable() const {
    return buffer_ && buffer_->unique() && buffer_->kind() == Buffer::Kind::own && data_ == buffer_->data();
  }
  bool borrowed() const { return buffer_ && buffer_->borrowed(); }
  bool on_device() const { return buffer_ && buffer_->kind() == Buffer::Kind::device; }
  Buffer* buffer() const { return buffer_; }

  // The same elements under another shape of the same size.
  Tensor reshaped(Shape shape) const;
  // The same bytes as another element type of the same width, such as quint8 and uint8.
  Tensor viewed_as(DType dtype) const;
  // Rows [first, first + count) along dimension 0, sharing the buffer.
  Tensor rows(int64_t first, int64_t count) const;
  // A deep copy, and the same only where the buffer is borrowed.
  Tensor clone() const;
  Tensor owned() const { return borrowed() ? clone() : *this; }

 private:
  Buffer* buffer_ = nullptr;
  void* data_ = nullptr;
  Shape shape_;
  DType dtype_ = DType::invalid;
};

// Copies `count` elements between storage of the same type.
void copy_elements(DType dtype, void* to, const void* from, int64_t count);

// An int32 or int64 tensor's elements, widened: shapes, axes, sizes and indices come in either type.
std::vector<int64_t> to_int64s(const Tensor& t);
int64_t to_int64(const Tensor& t);

}  // namespace thalweg
