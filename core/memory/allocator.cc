// The caching allocator's size classes and free lists, and the per-thread counts for accounts.
//
// The free lists are bounded so that the memory taken from the system exceeds the peak of the tensors' memory by at
// most an eighth or 256 MB; blocks that lay idle longest are freed first, and all when a session is closed.
#include "memory/allocator.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include "error.h"
#include "memory/memory_trace.h"
#include "memory/shared_arena.h"

namespace thalweg {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kSmallest = 64;
constexpr size_t kSmallLimit = 32 * 1024;
constexpr size_t kHugePageSize = size_t{2} << 20;
// Enough for a step with a thousand small tensors alive at once.
constexpr size_t kBytesPerThreadClass = 256 * 1024;
// How far the memory taken from the system may exceed the peak of the tensors' memory: this, or an eighth of the peak.
constexpr int64_t kLeastSpare = int64_t{256} << 20;

// Classes are powers of two cut into eight steps: at most an eighth of a block is wasted.
constexpr int class_of(size_t bytes) {
  if (bytes <= kSmallest) return 0;
  size_t b = bytes - 1;
  int top = std::bit_width(b) - 1;
  return (top - 5) * 8 + static_cast<int>((b >> (top - 3)) & 7) - 7;
}

constexpr size_t class_size(int index) {
  if (index == 0) return kSmallest;
  int step = index + 7;
  int top = step / 8 + 5;
  return (size_t{8} + step % 8 + 1) << (top - 3);
}

constexpr int kSmallClasses = 73;

// A table, because small blocks come and go every few nanoseconds.
constexpr std::array<uint32_t, kSmallClasses> kSmallSizes = [] {
  std::array<uint32_t, kSmallClasses> sizes{};
  for (int c = 0; c < kSmallClasses; ++c) sizes[c] = static_cast<uint32_t>(class_size(c));
  return sizes;
}();
static_assert(class_of(kSmallLimit) == kSmallClasses - 1);

// Free blocks by size class, the most recently released of a class last.
struct SharedCache {
  struct Block {
    void* memory;
    uint64_t released;
  };
  std::mutex mutex;
  std::map<int, std::vector<Block>> blocks;
  int64_t bytes = 0;
  int64_t peak = 0;  // of the tensors' memory, since the last trim
  uint64_t releases = 0;

  void* take(int size_class) {
    auto found = blocks.find(size_class);
    if (found == blocks.end() || found->second.empty()) return nullptr;
    void* memory = found->second.back().memory;
    found->second.pop_back();
    bytes -= static_cast<int64_t>(class_size(size_class));
    return memory;
  }
  // Gives blocks back to the system, those that lay idle longest first, until this many bytes are left.
  void shrink(int64_t most) {
    while (bytes > std::max<int64_t>(most, 0)) {
      auto idle = blocks.end();
      for (auto at = blocks.begin(); at != blocks.end(); ++at)
        if (!at->second.empty() && (idle == blocks.end() || at->second[0].released < idle->second[0].released))
          idle = at;
      std::free(idle->second[0].memory);
      idle->second.erase(idle->second.begin());
      bytes -= static_cast<int64_t>(class_size(idle->first));
    }
  }
};

// Never destroyed: tensors may be released while the process is ending.
SharedCache& shared_cache() {
  static SharedCache* cache = new SharedCache;
  return *cache;
}

constexpr int64_t kLateBytes = 64 * 1024;

// The cache of one thread: free blocks, and the sizes of its small blocks that are not settled with the current
// account.
struct ThreadCache {
  std::vector<void*> blocks[kSmallClasses];
  bool alive = true;
  Account* account = nullptr;
  int64_t bytes = 0;
  int64_t allocations = 0;

  void count(int64_t size) {
    bytes += size;
    ++allocations;
    if (bytes <= kLateBytes) [[likely]]
      return;
    bytes -= size;
    --allocations;
    settle();
    account->charge(size, size);
  }
  void discount(Account* charged, int64_t size) {
    if (charged != account) return charged->discharge(size);
    bytes -= size;
    if (bytes < -kLateBytes) settle();
  }
  void settle() {
    if (bytes == 0 && allocations == 0) return;
    account->settle(bytes, allocations);
    bytes = allocations = 0;
  }
  ~ThreadCache() {
    if (account != nullptr) settle();
    alive = false;
    for (auto& list : blocks) {
      for (void* block : list) std::free(block);
      list.clear();
    }
  }
};

thread_local ThreadCache thread_cache;

// The memory limit of a container's control group, which may be below the machine's memory.
int64_t container_limit() {
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream file(path);
    int64_t bytes = 0;
    if (file >> bytes && bytes > 0) return bytes;  // "max" is not a number
  }
  return INT64_MAX;
}

}  // namespace

Allocator& Allocator::cpu() {
  static Allocator* allocator = new Allocator;
  return *allocator;
}

Allocator::Allocator() {
  int64_t physical = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  limit_.store(std::min(physical, container_limit()));
}

void Allocator::account(int64_t bytes) {
  int64_t now = in_use_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t peak = peak_.load(std::memory_order_relaxed);
  while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

Account* current_account() { return thread_cache.account; }

AccountScope::AccountScope(Account* account) : before_(thread_cache.account) {
  if (before_ == account) return;
  if (before_ != nullptr) thread_cache.settle();
  thread_cache.account = account;
}

AccountScope::~AccountScope() {
  ThreadCache& cache = thread_cache;
  if (before_ == cache.account) return;
  if (cache.account != nullptr) cache.settle();
  cache.account = before_;
}

#ifdef __SANITIZE_ADDRESS__

// Under the address sanitizer every block has its exact size and goes back at once, so that it can see each stray
// access.
void* Allocator::take(size_t bytes, int) {
  if (bytes_in_use() + static_cast<int64_t>(bytes) > limit())
    fail(Code::resource_exhausted, "out of memory allocating ", bytes, " bytes");
  void* block = nullptr;
  if (posix_memalign(&block, kAlignment, bytes) != 0)
    fail(Code::resource_exhausted, "out of memory allocating ", bytes, " bytes");
  account(static_cast<int64_t>(bytes));
  return block;
}

void Allocator::release(void* block, size_t bytes, Account* charged) {
  if (charged != nullptr) thread_cache.discount(charged, static_cast<int64_t>(class_size(class_of(bytes))));
  in_use_.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  std::free(block);
}

#else

namespace {

// Adds a block to a list of free ones; false if that takes memory that there is not. To release must not throw.
template <typename Block>
inline bool keep(std::vector<Block>& list, const Block& block) noexcept {
  try {
    list.push_back(block);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

bool keep(std::map<int, std::vector<SharedCache::Block>>& lists, int size_class,
          const SharedCache::Block& block) noexcept {
  try {
    return keep(lists[size_class], block);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

inline void* take_small(ThreadCache& cache, size_t bytes, int c) {
  auto& list = cache.blocks[c];
  if (cache.alive && !list.empty()) [[likely]] {
    void* block = list.back();
    list.pop_back();
    return block;
  }
  void* block = std::aligned_alloc(kAlignment, (kSmallSizes[c] + kAlignment - 1) / kAlignment * kAlignment);
  if (block == nullptr) fail(Code::resource_exhausted, "out of memory allocating ", bytes, " bytes");
  return block;
}

}  // namespace

void* Allocator::take(size_t bytes, int c) {
  return bytes <= kSmallLimit ? take_small(thread_cache, bytes, c) : allocate_large(bytes, c);
}

void* Allocator::allocate_large(size_t bytes, int size_class) {
  size_t size = class_size(size_class);
  if (bytes_in_use() + static_cast<int64_t>(size) > limit())
    fail(Code::resource_exhausted, "out of memory: allocating ", bytes, " bytes on top of ", bytes_in_use(),
         " in use exceeds the limit of ", limit(), " bytes");
  if (memory_trace != nullptr) memory_trace->take(static_cast<int64_t>(size));
  if (SharedScope::active() && SharedArena::existing() != nullptr) {
    if (void* block = SharedArena::existing()->take(size)) {
      account(static_cast<int64_t>(size));
      return block;
    }
  }
  SharedCache& cache = shared_cache();
  {
    std::lock_guard lock(cache.mutex);
    void* block = cache.take(size_class);
    account(static_cast<int64_t>(size));
    const int64_t held = bytes_in_use();
    cache.peak = std::max(cache.peak, held);
    if (block != nullptr) return block;
    cache.shrink(cache.peak + std::max(kLeastSpare, cache.peak / 8) - held);
  }
  bool huge = size >= 2 * kHugePageSize;
  size_t alignment = huge ? kHugePageSize : kAlignment;
  size_t rounded = (size + alignment - 1) / alignment * alignment;
  void* block = std::aligned_alloc(alignment, rounded);
  if (block == nullptr) {
    trim();
    block = std::aligned_alloc(alignment, rounded);
  }
  if (block == nullptr) {
    in_use_.fetch_sub(static_cast<int64_t>(size), std::memory_order_relaxed);
    fail(Code::resource_exhausted, "out of memory: the system refused ", bytes, " bytes");
  }
  if (huge) madvise(block, rounded, MADV_HUGEPAGE);
  return block;
}

void Allocator::release(void* block, size_t bytes, Account* charged) {
  const int c = class_of(bytes);
  if (bytes <= kSmallLimit) {
    ThreadCache& cache = thread_cache;
    const size_t size = kSmallSizes[c];
    if (charged != nullptr) cache.discount(charged, static_cast<int64_t>(size));
    auto& list = cache.blocks[c];
    if (!cache.alive || list.size() * size >= kBytesPerThreadClass || !keep(list, block)) std::free(block);
    return;
  }
  const size_t size = class_size(c);
  if (charged != nullptr) thread_cache.discount(charged, static_cast<int64_t>(size));
  if (memory_trace != nullptr) memory_trace->give(static_cast<int64_t>(size));
  in_use_.fetch_sub(static_cast<int64_t>(size), std::memory_order_relaxed);
  SharedArena* arena = SharedArena::existing();
  if (arena != nullptr && arena->contains(block)) return arena->give(block, size);
  SharedCache& cache = shared_cache();
  std::lock_guard lock(cache.mutex);
  if (keep(cache.blocks, c, SharedCache::Block{block, ++cache.releases}))
    cache.bytes += static_cast<int64_t>(size);
  else
    std::free(block);
}

#endif

void* Allocator::allocate(size_t bytes) { return take(bytes, class_of(bytes)); }

void* Allocator::allocate(size_t bytes, Account*& charged) {
  ThreadCache& cache = thread_cache;
  const int size_class = class_of(bytes);
  charged = cache.account;
#ifndef __SANITIZE_ADDRESS__
  if (bytes <= kSmallLimit) [[likely]] {
    if (charged != nullptr) cache.count(kSmallSizes[size_class]);
    return take_small(cache, bytes, size_class);
  }
#endif
  if (charged == nullptr) return take(bytes, size_class);
  const int64_t size = static_cast<int64_t>(class_size(size_class));
  charged->charge(size, static_cast<int64_t>(bytes));
  try {
    return take(bytes, size_class);
  } catch (...) {
    charged->discharge(size);
    throw;
  }
}

void Allocator::trim() {
  if (SharedArena* arena = SharedArena::existing()) arena->trim();
  SharedCache& cache = shared_cache();
  std::lock_guard lock(cache.mutex);
  cache.shrink(0);
  cache.peak = bytes_in_use();
}

}  // namespace thalweg
