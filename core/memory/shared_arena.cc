// The arena's memfd, its free ranges and its idle blocks.
#include "memory/shared_arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <new>
#include <string>

namespace thalweg {
namespace {

constexpr size_t kPage = 4096;
// Taken and idle bytes together exceed the peak of the taken bytes by at most this many, or by an eighth.
constexpr size_t kSpareBytes = size_t{64} << 20;
// How long pages lie idle before they go back to the system: longer than a pause between steps (an evaluation, a
// checkpoint), because fresh pages cost the next step 0.3 s a gigabyte.
constexpr std::chrono::seconds kIdleTime(10);

// Powers of two cut into eight steps, so that blocks find others of their size.
size_t rounded(size_t bytes) {
  bytes = std::max(bytes, kPage);
  const size_t step = std::max(kPage, std::bit_floor(bytes) / 8);
  return (bytes + step - 1) / step * step;
}

}  // namespace

std::atomic<SharedArena*> SharedArena::existing_{nullptr};

SharedArena* SharedArena::get() {
  static SharedArena* arena = [] {
    auto* made = new SharedArena;
    if (!made->open()) {
      delete made;
      made = nullptr;
    }
    existing_.store(made, std::memory_order_release);
    return made;
  }();
  return arena;
}

// Twice the host's memory, so that blocks of different sizes find room; not more, because a process maps the arenas of
// all its peers, and has 128 TB of addresses for them.
size_t SharedArena::most_bytes() {
  const size_t physical = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
  return std::bit_ceil(physical) * 2;
}

bool SharedArena::open() {
  size_ = most_bytes();
  fd_ = memfd_create("thalweg", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd_ < 0 || ftruncate(fd_, static_cast<off_t>(size_)) != 0) return false;
  // Peers map it only if it cannot be cut under them.
  if (fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) return false;
  // Opened a second time: a peer that gets this descriptor cannot write through it. Another user's process cannot open
  // it anew for writing, either (one of the same user could write into this process's memory anyway).
  fchmod(fd_, S_IRUSR);
  reading_fd_ = ::open(("/proc/self/fd/" + std::to_string(fd_)).c_str(), O_RDONLY | O_CLOEXEC);
  void* base = HugePages::map(fd_, size_, PROT_READ | PROT_WRITE);
  if (reading_fd_ < 0 || base == nullptr) return false;
  // The child of a fork must not write into memory that its parent's peers read.
  madvise(base, size_, MADV_DONTFORK);
  madvise(base, size_, MADV_HUGEPAGE);  // where the system allows it for shared memory
  base_ = static_cast<char*>(base);
  free_[0] = size_;
  return true;
}

void* SharedArena::take(size_t bytes) {
  const size_t size = rounded(bytes);
  std::lock_guard lock(mutex_);
  if (auto found = idle_.find(size); found != idle_.end() && !found->second.empty()) {
    const size_t at = found->second.back();
    found->second.pop_back();
    idle_bytes_ -= size;
    least_idle_ = std::min(least_idle_, idle_bytes_);
    count(size);
    return base_ + at;
  }
  const size_t alignment = size < HugePages::kLarge ? kPage : HugePages::kPage;
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    const auto [begin, length] = *range;
    const size_t before = (alignment - begin % alignment) % alignment;
    if (length < size + before) continue;
    const size_t at = begin + before;
    free_.erase(range);
    if (before > 0) free_[begin] = before;
    if (length > size + before) free_[at + size] = length - size - before;
    count(size);
    shrink(allowed());
    if (size >= HugePages::kLarge) huge_pages_.add(base_ + at, size);
    return base_ + at;
  }
  return nullptr;
}

void SharedArena::give(void* block, size_t bytes) {
  const size_t size = rounded(bytes);
  std::lock_guard lock(mutex_);
  // To release must not throw: a block for which the lists have no memory is lost.
  try {
    idle_[size].push_back(offset(block));
    idle_bytes_ += size;
    taken_bytes_ -= size;
    shrink(allowed());
  } catch (const std::bad_alloc&) {
  }
}

void SharedArena::trim() {
  std::lock_guard lock(mutex_);
  shrink(0);
  peak_bytes_ = taken_bytes_;
}

void SharedArena::relax(std::chrono::steady_clock::time_point now) {
  std::lock_guard lock(mutex_);
  if (now - relaxed_ < kIdleTime) return;
  relaxed_ = now;
  if (least_idle_ > 0) {
    shrink(idle_bytes_ - least_idle_);
    peak_bytes_ = taken_bytes_ + idle_bytes_;
  }
  least_idle_ = idle_bytes_;
}

void SharedArena::count(size_t size) {
  taken_bytes_ += size;
  peak_bytes_ = std::max(peak_bytes_, taken_bytes_);
}

size_t SharedArena::allowed() const {
  return peak_bytes_ + std::max(kSpareBytes, peak_bytes_ / 8) - std::min(taken_bytes_, peak_bytes_);
}

void SharedArena::shrink(size_t most) {
  least_idle_ = std::min(least_idle_, most);
  while (idle_bytes_ > most) {
    auto largest = std::prev(idle_.end());
    while (largest->second.empty()) largest = std::prev(idle_.erase(largest));
    const size_t size = largest->first;
    size_t at = largest->second.front();
    largest->second.erase(largest->second.begin());
    idle_bytes_ -= size;
    fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(at), static_cast<off_t>(size));
    size_t length = size;
    auto next = free_.lower_bound(at);
    if (next != free_.end() && next->first == at + length) {
      length += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      auto before = std::prev(next);
      if (before->first + before->second == at) {
        at = before->first;
        length += before->second;
        free_.erase(before);
      }
    }
    free_[at] = length;
  }
}

int64_t SharedArena::bytes_taken() {
  std::lock_guard lock(mutex_);
  return static_cast<int64_t>(taken_bytes_);
}

int64_t SharedArena::bytes_idle() {
  std::lock_guard lock(mutex_);
  return static_cast<int64_t>(idle_bytes_);
}

}  // namespace thalweg
