// Shape: the dimensions of a dense tensor and their product, checked for sign and overflow once, when made.
//
// Up to four dimensions live inside the object, more on the heap: copying a scalar's or a matrix's shape never
// allocates. PartialShape is a shape as attributes and feeds declare it: any dimension, or the rank, may be unknown.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "error.h"

namespace thalweg {

class Shape {
 public:
  static constexpr int kInline = 4;
  static constexpr int kMaxRank = 254;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) { assign({dims.begin(), dims.size()}); }
  explicit Shape(std::span<const int64_t> dims) { assign(dims); }
  explicit Shape(const std::vector<int64_t>& dims) { assign({dims.data(), dims.size()}); }
  Shape(const Shape& other) { copy(other); }
  Shape(Shape&& other) noexcept { steal(other); }
  Shape& operator=(const Shape& other) {
    if (this != &other) {
      release();
      copy(other);
    }
    return *this;
  }
  Shape& operator=(Shape&& other) noexcept {
    if (this != &other) {
      release();
      steal(other);
    }
    return *this;
  }
  ~Shape() { release(); }

  int rank() const { return rank_; }
  int64_t num_elements() const { return count_; }
  const int64_t* data() const { return rank_ <= kInline ? inline_ : heap_; }
  int64_t operator[](int i) const { return data()[i]; }
  std::span<const int64_t> dims() const { return {data(), static_cast<size_t>(rank_)}; }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + rank_; }
  std::vector<int64_t> to_vector() const { return {begin(), end()}; }
  bool operator==(const Shape& other) const {
    return rank_ == other.rank_ && std::memcmp(data(), other.data(), sizeof(int64_t) * rank_) == 0;
  }

  // A copy with one dimension replaced, inserted or removed.
  Shape with_dim(int i, int64_t size) const;
  Shape inserted(int i, int64_t size) const;
  Shape removed(int i) const;
  // The product of dimensions [first, last).
  int64_t product(int first, int last) const {
    int64_t n = 1;
    for (int i = first; i < last; ++i) n *= data()[i];
    return n;
  }
  std::string str() const;

 private:
  void assign(std::span<const int64_t> dims);
  void copy(const Shape& other);
  void steal(Shape& other) noexcept {
    rank_ = other.rank_;
    count_ = other.count_;
    if (rank_ <= kInline) {
      std::memcpy(inline_, other.inline_, sizeof(inline_));
    } else {
      heap_ = other.heap_;
      other.rank_ = 0;
      other.count_ = 1;
    }
  }
  void release() {
    if (rank_ > kInline) delete[] heap_;
    rank_ = 0;
  }

  int64_t count_ = 1;
  int32_t rank_ = 0;
  union {
    int64_t inline_[kInline];
    int64_t* heap_;
  };
};

inline std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.str(); }

struct PartialShape {
  bool known_rank = false;
  std::vector<int64_t> dims;  // -1 where unknown

  bool accepts(const Shape& shape) const;
  bool fully_defined() const;
  std::string str() const;
};

inline std::ostream& operator<<(std::ostream& out, const PartialShape& shape) { return out << shape.str(); }

// The axis in [0, rank), from one that may count from the end.
inline int checked_axis(int64_t axis, int rank) {
  require(axis >= -rank && axis < rank, "axis ", axis, " is out of range for a tensor of rank ", rank,
          ": expected a value in [", -rank, ", ", rank, ")");
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

}  // namespace thalweg
