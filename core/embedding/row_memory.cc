// RowMemory on mmap and mremap.
#include "embedding/row_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "error.h"

namespace thalweg::embedding {
namespace {

constexpr size_t kPage = 4096, kHuge = size_t{2} << 20;

void* mapped(size_t bytes) {
  return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

// Begins at the border of a huge page: others are split when they move, or never made.
void* mapped_aligned(size_t bytes) {
  char* found = static_cast<char*>(mapped(bytes + kHuge));
  if (found == MAP_FAILED) return found;
  const size_t before = (kHuge - reinterpret_cast<uintptr_t>(found) % kHuge) % kHuge;
  if (before > 0) munmap(found, before);
  munmap(found + before + bytes, kHuge - before);
  return found + before;
}

// Moves the rows to memory of their own, which is larger.
void* copied(void* data, size_t before, void* found) {
  if (found == MAP_FAILED) return found;
  std::memcpy(found, data, before);
  munmap(data, before);
  return found;
}

void* remapped(void* data, size_t before, size_t bytes) {
#ifdef __SANITIZE_THREAD__
  // The sanitizer does not learn of addresses that mremap frees, and takes their next use for a race.
  return copied(data, before, mapped(bytes));
#else
  if (bytes % kHuge != 0) return mremap(data, before, bytes, MREMAP_MAYMOVE);
  void* found = mremap(data, before, bytes, 0);
  if (found != MAP_FAILED) return found;
  // Its pages move as they are: nothing is copied.
  found = mapped_aligned(bytes);
  return found == MAP_FAILED ? found : mremap(data, before, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, found);
#endif
}

}  // namespace

RowMemory::~RowMemory() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

RowMemory::RowMemory(RowMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

RowMemory& RowMemory::operator=(RowMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void RowMemory::reserve(size_t bytes) {
  if (bytes <= bytes_) return;
  size_t wanted = std::max(bytes, bytes_ + bytes_ / 4);
  const size_t unit = wanted >= 2 * kHuge ? kHuge : kPage;
  wanted = (wanted + unit - 1) / unit * unit;
  const bool huge = unit == kHuge, was_huge = bytes_ >= 2 * kHuge;
  void* found;
  if (data_ == nullptr || huge != was_huge) {
    found = huge ? mapped_aligned(wanted) : mapped(wanted);
    // Where it is refused, small pages serve as well.
    if (huge && found != MAP_FAILED) madvise(found, wanted, MADV_HUGEPAGE);
    if (data_ != nullptr) found = copied(data_, bytes_, found);
  } else {
    found = remapped(data_, bytes_, wanted);
  }
  if (found == MAP_FAILED)
    fail(Code::resource_exhausted, "an embedding table needs ", wanted,
         " bytes for the rows of one of its shards: ", std::strerror(errno));
  data_ = static_cast<char*>(found);
  bytes_ = wanted;
  if (huge) madvise(data_, bytes_, MADV_HUGEPAGE);
}

}  // namespace thalweg::embedding
