// The caching allocator: blocks aligned to 64 bytes, kept in free lists by size class instead of going back to the
// system, because the page faults of a fresh 16 MB block cost more than an element-wise kernel over it.
//
// Thread-safe. Small blocks (up to 32 KB) are cached per thread without a lock, larger ones in one shared list whose
// size is bounded. The process's figures count the larger blocks that tensors hold, not those in the cache; the bytes
// of a device's tensors are in its account (memory/account.h). A request beyond the limit of either (the machine's
// memory unless set) fails with ResourceExhausted; it never ends the process.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "memory/account.h"

namespace thalweg {

class Allocator {
 public:
  static Allocator& cpu();

  // A block, charged to the thread's current account, which `charged` then names; null if there is none.
  void* allocate(size_t bytes, Account*& charged);
  void release(void* block, size_t bytes, Account* charged);
  // A block for as long as one kernel runs, charged to no device.
  void* allocate(size_t bytes);
  void release(void* block, size_t bytes) { release(block, bytes, nullptr); }

  int64_t bytes_in_use() const { return in_use_.load(std::memory_order_relaxed); }
  int64_t peak_bytes() const { return peak_.load(std::memory_order_relaxed); }
  void reset_peak() { peak_.store(bytes_in_use()); }
  int64_t limit() const { return limit_.load(std::memory_order_relaxed); }
  void set_limit(int64_t bytes) { limit_.store(bytes); }
  // Gives the shared cache's blocks back to the system.
  void trim();

 private:
  Allocator();
  void* take(size_t bytes, int size_class);
  void* allocate_large(size_t bytes, int size_class);
  void account(int64_t bytes);

  std::atomic<int64_t> in_use_{0};
  std::atomic<int64_t> peak_{0};
  std::atomic<int64_t> limit_{0};
};

}  // namespace thalweg
