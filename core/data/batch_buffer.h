// BatchBuffer: elements gathered into one tensor per component, each copied straight to its row.
//
// The rows are allocated when the first element shows their shape. Strings of an element without another reference are
// moved, not copied. Not thread-safe.
#pragma once

#include "data/dataset.h"

namespace thalweg {

class BatchBuffer {
 public:
  explicit BatchBuffer(int64_t capacity) : capacity_(capacity) {}
  int64_t size() const { return size_; }
  bool full() const { return size_ == capacity_; }
  // Fails, without keeping anything of it, for an element whose shapes differ from the first one's.
  void add(Element& element);
  // The batch of the added elements; empties the buffer.
  void take(Element& out);
  void clear() {
    rows_.clear();
    size_ = 0;
  }
  void save(StateWriter& out) const;
  void restore(StateReader& in);

 private:
  void begin(const Element& element);

  const int64_t capacity_;
  int64_t size_ = 0;
  int64_t allocated_ = 0;
  std::vector<Tensor> rows_;
  std::vector<Shape> shapes_;  // of the elements
};

// Copies or, where `from` holds the only reference, moves the elements of `from` to `to`.
void put_elements(const Tensor& from, void* to);

}  // namespace thalweg
