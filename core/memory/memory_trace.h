// MemoryTrace: the bytes that one thread allocates and releases while a traced node runs on it.
//
// Blocks above 32 KB only: smaller ones are not counted. Allocations by helpers of a parallel loop are not seen.
#pragma once

#include <algorithm>
#include <cstdint>

namespace thalweg {

struct MemoryTrace {
  int64_t taken = 0;  // in all
  int64_t held = 0;   // taken minus given back, including blocks that were allocated before the node ran
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
