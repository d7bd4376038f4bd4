// CountingFilter: how often keys without a row have occurred, in a fixed number of bytes.
//
// A key counts in three places; the smallest of them is its count, which is never too small, and too large only where
// other keys share all three. Counts end at 255. Thread-safe, without locks: two threads that count one key at the same
// time may count it once.
#pragma once

#include <algorithm>
#include <atomic>
#include <vector>

#include "strings/hash.h"

namespace thalweg::embedding {

class CountingFilter {
 public:
  explicit CountingFilter(size_t bytes) : counts_(std::max<size_t>(bytes, 64)) {}
  size_t bytes() const { return counts_.size(); }

  // Counts an occurrence; returns how many there have been.
  uint32_t add(uint64_t hash) {
    uint8_t least = 255;
    size_t places[3];
    for (uint64_t i = 0; i < 3; ++i) {
      places[i] = place(combine64(hash, 3 + i));
      least = std::min(least, std::atomic_ref(counts_[places[i]]).load(std::memory_order_relaxed));
    }
    if (least == 255) return 255;
    // Only places at the smallest count rise: the others are there because of other keys.
    for (size_t at : places) {
      uint8_t expected = least;
      std::atomic_ref(counts_[at])
          .compare_exchange_strong(expected, static_cast<uint8_t>(least + 1), std::memory_order_relaxed);
    }
    return least + 1u;
  }
  void clear() {
    for (uint8_t& count : counts_) std::atomic_ref(count).store(0, std::memory_order_relaxed);
  }

 private:
  size_t place(uint64_t hash) const {
    return static_cast<size_t>((static_cast<unsigned __int128>(hash) * counts_.size()) >> 64);
  }
  std::vector<uint8_t> counts_;
};

}  // namespace thalweg::embedding
