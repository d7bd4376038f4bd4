// RowMemory on mmap and mremap.
#include "embedding/row_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "error.h"

namespace thalweg::embedding {
namespace {

constexpr size_t kPage = 4096, kHuge = size_t{2} << 20;

void* mapped(size_t bytes) {
  return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

void* remapped(void* data, size_t before, size_t bytes) {
#ifdef __SANITIZE_THREAD__
  // The sanitizer does not learn of addresses that mremap frees, and takes their next use for a race.
  void* found = mapped(bytes);
  if (found == MAP_FAILED) return found;
  std::memcpy(found, data, before);
  munmap(data, before);
  return found;
#else
  return mremap(data, before, bytes, MREMAP_MAYMOVE);
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
  void* found = data_ == nullptr ? mapped(wanted) : remapped(data_, bytes_, wanted);
  if (found == MAP_FAILED)
    fail(Code::resource_exhausted, "an embedding table needs ", wanted,
         " bytes for the rows of one of its shards: ", std::strerror(errno));
  data_ = static_cast<char*>(found);
  bytes_ = wanted;
  if (unit == kHuge) madvise(data_, bytes_, MADV_HUGEPAGE);  // Where it is refused, small pages serve as well.
}

}  // namespace thalweg::embedding
