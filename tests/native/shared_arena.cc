// The arena of shared memory: blocks do not overlap, large ones are aligned to huge pages and keep their values.
#include "memory/shared_arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "check.h"

namespace {

using namespace thalweg;

constexpr size_t kLarge = HugePages::kLarge;

TEST(blocks_are_aligned_and_do_not_overlap) {
  SharedArena& arena = *SharedArena::get();
  std::vector<std::pair<char*, size_t>> blocks;
  for (size_t bytes : {size_t{1}, kLarge, size_t{5000}, kLarge + 1, size_t{1} << 20, 2 * kLarge, size_t{4096}}) {
    char* block = static_cast<char*>(arena.take(bytes));
    CHECK(block != nullptr);
    CHECK_EQUAL(reinterpret_cast<size_t>(block) % (bytes >= kLarge ? HugePages::kPage : 4096), 0u);
    for (auto [other, size] : blocks) CHECK(block + bytes <= other || other + size <= block);
    blocks.emplace_back(block, bytes);
  }
  for (auto [block, bytes] : blocks) arena.give(block, bytes);
  // What lies between aligned blocks is used.
  char* small = static_cast<char*>(arena.take(8192));
  CHECK(small < blocks[1].first);
  arena.give(small, 8192);
}

TEST(a_large_block_keeps_its_values_while_its_pages_are_joined) {
  SharedArena& arena = *SharedArena::get();
  const size_t count = kLarge / sizeof(size_t);
  auto* block = static_cast<size_t*>(arena.take(kLarge));
  void* peers = HugePages::map(arena.reading_fd(), arena.size(), PROT_READ);
  CHECK(peers != nullptr);
  const auto* seen = reinterpret_cast<const size_t*>(static_cast<char*>(peers) + arena.offset(block));
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  for (size_t round = 1; std::chrono::steady_clock::now() < until; ++round) {
    for (size_t i = 0; i < count; ++i) block[i] = i * round;
    for (size_t i = 0; i < count; i += 61) CHECK_EQUAL(seen[i], i * round);
  }
  arena.give(block, kLarge);
  munmap(peers, arena.size());
}

TEST(pages_that_lie_idle_go_back_to_the_system_and_those_that_are_used_stay) {
  SharedArena& arena = *SharedArena::get();
  arena.trim();
  const auto give_all = [&](std::vector<void*> blocks) {
    for (void* block : blocks) arena.give(block, kLarge);
  };
  const auto start = std::chrono::steady_clock::now() + std::chrono::hours(1);
  arena.relax(start);
  give_all({arena.take(kLarge), arena.take(kLarge), arena.take(kLarge)});
  const int64_t all = arena.bytes_idle();
  CHECK(all >= static_cast<int64_t>(3 * kLarge));
  arena.relax(start + std::chrono::seconds(10));  // They have been used since.
  CHECK_EQUAL(arena.bytes_idle(), all);
  arena.give(arena.take(kLarge), kLarge);
  arena.relax(start + std::chrono::seconds(15));  // Not long enough.
  CHECK_EQUAL(arena.bytes_idle(), all);
  arena.relax(start + std::chrono::seconds(20));
  CHECK_EQUAL(arena.bytes_idle(), all / 3);
  arena.relax(start + std::chrono::seconds(30));
  CHECK_EQUAL(arena.bytes_idle(), 0);
  char* block = static_cast<char*>(arena.take(kLarge));
  std::memset(block, 1, kLarge);
  arena.give(block, kLarge);
}

TEST(a_file_that_cannot_be_mapped_gives_null) { CHECK(HugePages::map(-1, 1 << 20, PROT_READ) == nullptr); }

}  // namespace
