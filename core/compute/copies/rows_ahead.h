// RowsAhead: fetches rows at random places into the cache before a loop comes to them.
//
// A row of a table that is larger than the caches takes some 100 ns to arrive. The processor looks only a few dozen
// instructions ahead, so a loop over rows waits for nearly each of them; with several rows under way it does not.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace thalweg {

class RowsAhead {
 public:
  // For rows of so many bytes, of so many arrays at a time.
  explicit RowsAhead(size_t row_bytes, size_t arrays = 1)
      : lines_(std::min((row_bytes + kLine - 1) / kLine, kMostLines)),
        rows_(std::clamp<int64_t>(static_cast<int64_t>(kUnderWay / std::max<size_t>(1, lines_ * arrays)), 2, 16)) {}

  // How many rows ahead to fetch.
  int64_t rows() const { return rows_; }
  void fetch(const void* row) const {
    for (size_t i = 0; i < lines_; ++i) __builtin_prefetch(static_cast<const char*>(row) + i * kLine);
  }

 private:
  // A core keeps track of two dozen lines that miss its nearest cache, and of twice as many that miss the next one. The
  // rest of a long row is fetched by the processor itself.
  static constexpr size_t kLine = 64, kMostLines = 8, kUnderWay = 40;
  size_t lines_;
  int64_t rows_;
};

}  // namespace thalweg
