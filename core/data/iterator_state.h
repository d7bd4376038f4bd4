// StateWriter and StateReader: the position of an iterator as bytes, and back.
//
// Iterators write their state in a fixed order; `tag` names the kind of iterator, so that a state is never read by a
// pipeline of another shape. Bytes are not trusted: the reader checks all of them, and fails with DataLoss. Handles
// (resources, datasets inside elements) cannot be written.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tensor/resource_handle.h"
#include "tensor/tensor.h"

namespace thalweg {

class StateWriter {
 public:
  void tag(std::string_view kind) { text(kind); }
  void integer(int64_t value);
  void text(std::string_view value);
  void tensor(const Tensor& value);
  void element(const std::vector<Tensor>& value);
  std::string take() { return std::move(bytes_); }

 private:
  void variant(const ResourceHandle& value);
  std::string bytes_;
};

class StateReader {
 public:
  explicit StateReader(std::string_view bytes) : rest_(bytes) {}
  void tag(std::string_view kind);
  int64_t integer();
  // An integer that counts things, each of them at least one byte long.
  int64_t count();
  std::string text();
  Tensor tensor();
  std::vector<Tensor> element();

 private:
  void variant(ResourceHandle& out);
  std::string_view take(size_t size);
  std::string_view rest_;
  int depth_ = 0;
};

}  // namespace thalweg
