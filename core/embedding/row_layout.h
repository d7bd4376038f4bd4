// RowLayout: the bytes of one row: a header, the value in the table's precision, and the slots of optimizers.
//
// Everything about a row lies side by side, so that an update touches consecutive lines of memory. The header takes 16
// bytes: the key (of a text: the address of a copy), the step of the last update, and a word with the number of updates
// (28 bits, saturating), the epoch in which the row was changed (2 bits), and whether it is in use.
//
// Moving averages are exact and cost nothing for rows that do not change. Averaging, with a decay of d, adds log(d) to
// a clock of the table. A row has two slots for it: its average, and the clock when that was computed. While its value
// v stays as it is, the average a moves to v + exp(now - then) * (a - v): it is settled before the row changes, and
// computed where it is read.
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

// State of a row beside its value. The two slots of an average are neighbours.
struct Slot {
  enum class Kind : uint8_t { constant, average, clock };
  std::string name;
  float initial = 0;  // of all elements; an average begins with the value
  Kind kind = Kind::constant;
  bool provisional = false;  // Rows came with it before an optimizer has said what it begins with.
  double clock = 0;          // in segments: the table's, when they were written
};

class RowLayout {
 public:
  explicit RowLayout(const Options& options) : dim_(options.dim), precision_(options.precision) {}

  int64_t dim() const { return dim_; }
  Precision precision() const { return precision_; }
  const std::vector<Slot>& slots() const { return slots_; }
  void add_slot(Slot slot);
  void keep_slots(size_t count);
  void set_initial(int slot, float initial);
  // The number of the slot of that name, or -1.
  int find_slot(std::string_view name) const;

  // int8: a scale, then the elements.
  size_t value_bytes() const {
    size_t n = static_cast<size_t>(dim_);
    size_t bytes = precision_ == Precision::float32 ? 4 * n : precision_ == Precision::bfloat16 ? 2 * n : 4 + n;
    return (bytes + 3) / 4 * 4;
  }
  // Elements of a slot.
  size_t width(int slot) const {
    return slots_[static_cast<size_t>(slot)].kind == Slot::Kind::clock ? 2 : static_cast<size_t>(dim_);
  }
  // Value and slots, or the first slots only.
  size_t payload_bytes() const { return payload_bytes(slots_.size()); }
  size_t payload_bytes(size_t slots) const { return value_bytes() + 4 * offsets_[slots]; }
  size_t stride() const { return sizeof(RowHeader) + (payload_bytes() + 7) / 8 * 8; }

  static RowHeader& header(char* row) { return *reinterpret_cast<RowHeader*>(row); }
  static const RowHeader& header(const char* row) { return *reinterpret_cast<const RowHeader*>(row); }
  static char* value(char* row) { return row + sizeof(RowHeader); }
  static const char* value(const char* row) { return row + sizeof(RowHeader); }
  float* slot(char* row, int i) const {
    return reinterpret_cast<float*>(row + sizeof(RowHeader) + value_bytes()) + offsets_[static_cast<size_t>(i)];
  }
  const float* slot(const char* row, int i) const { return slot(const_cast<char*>(row), i); }

  void decode(const char* value, float* out) const;
  // int8 rounds up or down at random, in proportion, so that small steps are not lost; `random` decides.
  void encode(const float* from, char* value, uint64_t random) const;
  // Gives the slots from number `from` on what they begin with; the value is there.
  void initialize_slots(char* row, size_t from = 0) const;

  // The slots that are averages.
  const std::vector<int>& averages() const { return averages_; }
  // Writes the average of a row as it is at `now` of its clock.
  void average(const char* row, int slot, double now, float* out) const;
  // Brings an average up to date, before the value changes.
  void settle(char* row, int slot, double now) const;

 private:
  int64_t dim_;
  Precision precision_;
  std::vector<Slot> slots_;
  std::vector<size_t> offsets_{0};  // of the slots, and their end
  std::vector<int> averages_;
};

// Writes the first value of the row of a key.
void first_value(const FirstValue& first, uint64_t id, float* out, int64_t n);

}  // namespace thalweg::embedding
