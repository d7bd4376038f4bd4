// SharedArena: memory of this process that other processes of the host can map and read: one memfd.
//
// A task lends tensors to its peers by telling them where in the arena they are. Blocks that are given back keep their
// pages for the next one of their size, because fresh pages cost several times a copy; idle pages beyond a limit go
// back to the system. The whole range of addresses is reserved at once, so that a peer maps it only once.
// Thread-safe. A process has at most one arena; it is never destroyed.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "memory/huge_pages.h"

namespace thalweg {

class SharedArena {
 public:
  // The arena of the process, made on first use; null if the system refuses one.
  static SharedArena* get();
  // The same, but null if it has not been made yet.
  static SharedArena* existing() { return existing_.load(std::memory_order_acquire); }
  // How large an arena of a process of this host is.
  static size_t most_bytes();

  // A block of at least `bytes`, aligned to a page, a large one to a huge page; null if the arena is full.
  void* take(size_t bytes);
  void give(void* block, size_t bytes);
  // Gives the pages of all idle blocks back to the system.
  void trim();
  // Called now and then: gives those pages back that have lain idle since the last call but one, or for longer. A burst
  // (updates that copied what peers still read) so costs memory only while it lasts.
  void relax(std::chrono::steady_clock::time_point now);
  bool contains(const void* address) const {
    return static_cast<const char*>(address) >= base_ && static_cast<const char*>(address) < base_ + size_;
  }
  uint64_t offset(const void* address) const {
    return static_cast<uint64_t>(static_cast<const char*>(address) - base_);
  }
  size_t size() const { return size_; }
  // A descriptor that peers can map for reading. A process of another user cannot write through it.
  int reading_fd() const { return reading_fd_; }
  // Bytes in blocks that are taken, and in blocks that keep their pages for reuse.
  int64_t bytes_taken();
  int64_t bytes_idle();

 private:
  SharedArena() = default;
  static std::atomic<SharedArena*> existing_;
  bool open();
  // Called with the lock: notes that a block was taken; how many bytes may lie idle; gives the pages of idle blocks
  // back to the system, the largest first, until so many bytes are left.
  void count(size_t size);
  size_t allowed() const;
  void shrink(size_t most);

  HugePages huge_pages_;
  int fd_ = -1, reading_fd_ = -1;
  char* base_ = nullptr;
  size_t size_ = 0;

  std::mutex mutex_;                            // guards everything below
  std::map<size_t, std::vector<size_t>> idle_;  // offsets of blocks with pages, by size
  std::map<size_t, size_t> free_;               // ranges without pages: offset and size
  size_t idle_bytes_ = 0, taken_bytes_ = 0;
  size_t peak_bytes_ = 0;  // of the bytes in taken blocks, since the last trim
  size_t least_idle_ = 0;  // of the idle bytes, since the last time that pages were given back for their age
  std::chrono::steady_clock::time_point relaxed_{};  // that time
};

// While it lives, large blocks of tensors that the thread allocates are taken from the arena: their tensors will be
// lent to other tasks, and need no copy then.
class SharedScope {
 public:
  SharedScope() : outer_(active_) { active_ = true; }
  ~SharedScope() { active_ = outer_; }
  SharedScope(const SharedScope&) = delete;
  static bool active() { return active_; }

 private:
  static inline thread_local bool active_ = false;
  const bool outer_;
};

}  // namespace thalweg
