// RowMemory: a growing array of bytes that the system provides page by page.
//
// Growing may move it, by its page tables and not by copying. Pages that were never touched take no memory. Large ones
// are backed by huge pages where the system allows it: rows are read at random, and most of the time would otherwise go
// into address translation.
#pragma once

#include <cstddef>

namespace thalweg::embedding {

class RowMemory {
 public:
  RowMemory() = default;
  ~RowMemory();
  RowMemory(const RowMemory&) = delete;
  RowMemory(RowMemory&& other) noexcept;
  RowMemory& operator=(RowMemory&& other) noexcept;

  char* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // Makes room for at least so many bytes; throws ResourceExhausted, and is then as it was.
  void reserve(size_t bytes);

 private:
  char* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace thalweg::embedding
