// RowLayout: the bytes of one row: a header, the value in the table's precision, and the slots of optimizers.
//
// Everything about a row lies side by side, so that an update touches consecutive lines of memory. The header takes 16
// bytes: the key (of a text: the address of a copy), the step of the last update, and a word with the number of updates
// (28 bits, saturating), the epoch in which the row was changed (2 bits), and whether it is in use.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>

#include "embedding/keys.h"
#include "embedding/options.h"

namespace thalweg::embedding {

struct RowHeader {
  static constexpr uint32_t kCountMask = (1u << 28) - 1;

  uint64_t key;
  uint32_t step;
  uint32_t state;

  uint32_t count() const { return state & kCountMask; }
  // 0: as in the last checkpoint; else 1 or 2, the epoch of the last change.
  uint32_t epoch() const { return state >> 28 & 3; }
  bool live() const { return state >> 30 & 1; }
  void set(uint32_t count, uint32_t epoch, bool live) {
    state = std::min(count, kCountMask) | epoch << 28 | static_cast<uint32_t>(live) << 30;
  }
};
static_assert(sizeof(RowHeader) == 16);

struct Slot {
  std::string name;
  float initial;
};

class RowLayout {
 public:
  explicit RowLayout(const Options& options) : dim_(options.dim), precision_(options.precision) {}

  int64_t dim() const { return dim_; }
  Precision precision() const { return precision_; }
  const std::vector<Slot>& slots() const { return slots_; }
  void add_slot(Slot slot) { slots_.push_back(std::move(slot)); }
  void keep_slots(size_t count) { slots_.resize(count); }
  // The number of the slot of that name, or -1.
  int find_slot(std::string_view name) const;

  // int8: a scale, then the elements.
  size_t value_bytes() const {
    size_t n = static_cast<size_t>(dim_);
    size_t bytes = precision_ == Precision::float32 ? 4 * n : precision_ == Precision::bfloat16 ? 2 * n : 4 + n;
    return (bytes + 3) / 4 * 4;
  }
  // Value and slots.
  size_t payload_bytes() const { return value_bytes() + slots_.size() * 4 * static_cast<size_t>(dim_); }
  size_t stride() const { return sizeof(RowHeader) + (payload_bytes() + 7) / 8 * 8; }

  static RowHeader& header(char* row) { return *reinterpret_cast<RowHeader*>(row); }
  static const RowHeader& header(const char* row) { return *reinterpret_cast<const RowHeader*>(row); }
  static char* value(char* row) { return row + sizeof(RowHeader); }
  static const char* value(const char* row) { return row + sizeof(RowHeader); }
  float* slot(char* row, int i) const {
    return reinterpret_cast<float*>(row + sizeof(RowHeader) + value_bytes()) + i * dim_;
  }
  const float* slot(const char* row, int i) const { return slot(const_cast<char*>(row), i); }

  void decode(const char* value, float* out) const;
  // int8 rounds up or down at random, in proportion, so that small steps are not lost; `random` decides.
  void encode(const float* from, char* value, uint64_t random) const;
  void initialize_slots(char* row) const;

 private:
  int64_t dim_;
  Precision precision_;
  std::vector<Slot> slots_;
};

// Writes the first value of the row of a key.
void first_value(const FirstValue& first, uint64_t id, float* out, int64_t n);

}  // namespace thalweg::embedding
