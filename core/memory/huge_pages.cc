// Joining pages of shared memory.
#include "memory/huge_pages.h"

#include <sys/mman.h>

#include <system_error>
#include <thread>

namespace thalweg {
namespace {

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

// Joining the pages of a block that is released sooner would cost more than it gains.
constexpr std::chrono::seconds kAge(2);

}  // namespace

void* HugePages::map(int fd, size_t bytes, int protection) {
  void* range = mmap(nullptr, bytes + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return nullptr;
  char* const start = static_cast<char*>(range);
  const size_t before = (kPage - reinterpret_cast<size_t>(start) % kPage) % kPage;
  void* base = mmap(start + before, bytes, protection, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0);
  if (base == MAP_FAILED) {
    munmap(range, bytes + kPage);
    return nullptr;
  }
  if (before > 0) munmap(start, before);
  if (before < kPage) munmap(start + before + bytes, kPage - before);
  return base;
}

void HugePages::add(void* block, size_t bytes) {
  std::lock_guard lock(mutex_);
  waiting_.push_back({static_cast<char*>(block), bytes, std::chrono::steady_clock::now() + kAge});
  if (has_thread_) return added_.notify_one();
  try {
    std::thread([this] { loop(); }).detach();
    has_thread_ = true;
  } catch (const std::system_error&) {
    waiting_.clear();  // The system has no more threads.
  }
}

void HugePages::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    added_.wait(lock, [&] { return !waiting_.empty(); });
    const Block block = waiting_.front();
    waiting_.pop_front();
    lock.unlock();
    std::this_thread::sleep_until(block.when);
    // A page at a time: a part that was given back meanwhile is refused, and the rest is not.
    for (size_t at = 0; at + kPage <= block.bytes; at += kPage) madvise(block.begin + at, kPage, MADV_COLLAPSE);
    lock.lock();
  }
}

}  // namespace thalweg
