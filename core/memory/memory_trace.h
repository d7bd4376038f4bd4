// MemoryTrace: what one thread takes from the allocator and gives back while a traced node runs on it.
//
// Blocks above 32 KB only: smaller ones come and go without anybody counting. What helpers of a parallel loop take is
// not seen.
#pragma once

#include <algorithm>
#include <cstdint>

namespace thalweg {

struct MemoryTrace {
  int64_t taken = 0;  // in all
  int64_t held = 0;   // taken and not given back; what was there before and is given back counts against it
  int64_t most = 0;   // of `held`

  void take(int64_t bytes) {
    taken += bytes;
    held += bytes;
    most = std::max(most, held);
  }
  void give(int64_t bytes) { held -= bytes; }
};

// The calling thread's, or null.
inline constinit thread_local MemoryTrace* memory_trace = nullptr;

}  // namespace thalweg
