// HugePages: gives large blocks of shared memory pages of 2 MB, in the background.
//
// Linux maps shared memory with pages of 4 KB unless an administrator has allowed others, and passing over large
// tensors then takes half as long again. It joins pages on request (MADV_COLLAPSE, Linux 6.1), which takes some
// milliseconds for each: a thread does so for blocks that were taken some time ago, while they are in use. Where the
// system refuses, nothing changes. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>

namespace thalweg {

class HugePages {
 public:
  static constexpr size_t kPage = size_t{2} << 20;
  // The smallest block whose pages are joined.
  static constexpr size_t kLarge = 8 * kPage;

  // An address range of a file's length whose start is a multiple of a huge page, as a huge page needs it. Maps the
  // file there; null if that is impossible.
  static void* map(int fd, size_t bytes, int protection);
  // Remembers a block that was just taken. Its range stays mapped for ever.
  void add(void* block, size_t bytes);

 private:
  struct Block {
    char* begin;
    size_t bytes;
    std::chrono::steady_clock::time_point when;
  };
  void loop();

  std::mutex mutex_;  // guards everything below
  std::condition_variable added_;
  bool has_thread_ = false;
  std::deque<Block> waiting_;
};

}  // namespace thalweg
