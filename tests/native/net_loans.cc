// The shared arena, and what peers can and cannot do with it.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sockets.h"

namespace {

using namespace native_tests;

int sealed_memory(size_t bytes, int seals = F_SEAL_SHRINK) {
  const int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  CHECK(fd >= 0 && ftruncate(fd, static_cast<off_t>(bytes)) == 0);
  CHECK_EQUAL(fcntl(fd, F_ADD_SEALS, seals), 0);
  return fd;
}

SharedArena& arena() { return *SharedArena::get(); }

TEST(blocks_are_apart_and_writable) {
  std::vector<std::pair<char*, size_t>> blocks;
  for (size_t bytes : {1ul, 4096ul, 5000ul, 100000ul, 1ul << 20}) {
    char* block = static_cast<char*>(arena().take(bytes));
    CHECK(block != nullptr && arena().contains(block) && arena().contains(block + bytes - 1));
    CHECK_EQUAL(arena().offset(block) % 4096, 0u);
    std::memset(block, static_cast<int>(blocks.size()), bytes);
    blocks.emplace_back(block, bytes);
  }
  for (size_t i = 0; i < blocks.size(); ++i)
    for (size_t k : {size_t{0}, blocks[i].second - 1}) CHECK_EQUAL(int{blocks[i].first[k]}, static_cast<int>(i));
  for (auto [block, bytes] : blocks) arena().give(block, bytes);
}

TEST(a_block_that_was_given_back_is_taken_again_with_its_pages) {
  void* first = arena().take(300000);
  const int64_t taken = arena().bytes_taken(), idle = arena().bytes_idle();
  arena().give(first, 300000);
  CHECK(arena().bytes_taken() < taken && arena().bytes_idle() > idle);
  CHECK_EQUAL(arena().take(299000), first);
  CHECK_EQUAL(arena().bytes_taken(), taken);
  arena().give(first, 299000);
}

TEST(idle_blocks_keep_their_pages_up_to_the_peak_and_lose_them_when_trimmed_and_their_room_is_joined) {
  constexpr size_t kBytes = 48 << 20;
  std::vector<void*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(arena().take(kBytes));
  for (void* block : blocks) std::memset(block, 1, kBytes);
  const int64_t peak = arena().bytes_taken();
  for (void* block : blocks) arena().give(block, kBytes);
  CHECK(arena().bytes_idle() >= static_cast<int64_t>(4 * kBytes));
  CHECK(arena().bytes_idle() + arena().bytes_taken() <= peak + (64 << 20));
  arena().trim();
  CHECK_EQUAL(arena().bytes_idle(), 0);
  // Neighbours that were given back one after the other make room for a block that none of them had room for.
  void* large = arena().take(3 * kBytes);
  CHECK(large != nullptr && arena().offset(large) < arena().offset(blocks.back()) + kBytes + (64 << 20));
  char* bytes = static_cast<char*>(large);
  for (size_t at = 0; at < 3 * kBytes; at += 4096) CHECK(bytes[at] == 0 || bytes[at] == 1);
  arena().give(large, 3 * kBytes);
  arena().trim();
  CHECK_EQUAL(arena().bytes_idle(), 0);
}

TEST(a_block_larger_than_the_arena_is_not_given) { CHECK(arena().take(arena().size() + 1) == nullptr); }

TEST(the_arena_cannot_be_cut_or_written_through_the_descriptor_that_is_passed) {
  const int fd = arena().reading_fd();
  CHECK(ftruncate(fd, 0) != 0);
  CHECK(write(fd, "x", 1) != 1);
  CHECK(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
  CHECK((fcntl(fd, F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) ==
        (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
}

TEST(memory_that_a_peer_could_take_away_is_refused) {
  CHECK_FAILS(Code::unavailable, "cannot be mapped", PeerArena(sealed_memory(1 << 20, F_SEAL_GROW)));
  CHECK_FAILS(Code::unavailable, "cannot be mapped", PeerArena(memfd_create("unsealed", MFD_CLOEXEC)));
  CHECK_FAILS(Code::unavailable, "cannot be mapped", PeerArena(sealed_memory(0)));
  CHECK_FAILS(Code::unavailable, "cannot be mapped", PeerArena(open("/proc/self/exe", O_RDONLY | O_CLOEXEC)));
  CHECK_FAILS(Code::unavailable, "cannot be mapped", PeerArena(socket_pair().first.release()));
  CHECK_FAILS(Code::unavailable, "cannot be mapped", PeerArena(-1));
  CHECK_FAILS(Code::unavailable, "cannot be mapped", PeerArena(sealed_memory(SharedArena::most_bytes() * 2)));
  // Huge pages have seals, and reading a hole without one to spare ends the process.
  const int huge = memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
  if (huge >= 0 && ftruncate(huge, 1 << 30) == 0 && fcntl(huge, F_ADD_SEALS, F_SEAL_SHRINK) == 0)
    CHECK_FAILS(Code::unavailable, "cannot be mapped", PeerArena(huge));
}

TEST(descriptors_of_refused_memory_are_closed) {
  const int fd = sealed_memory(1 << 20, F_SEAL_GROW);
  CHECK_FAILS(Code::unavailable, "cannot be mapped", PeerArena(fd));
  CHECK(fcntl(fd, F_GETFD) < 0);
}

// Both sides of a connection, without one.
struct Both {
  Both() : lender(&arena(), nullptr, [](uint64_t) {}), borrower(nullptr, shared(), back()) {}
  static std::shared_ptr<PeerArena> shared() { return std::make_shared<PeerArena>(dup(arena().reading_fd())); }
  std::function<void(uint64_t)> back() {
    return [this](uint64_t number) {
      returned.push_back(number);
      lender.returned(number);
    };
  }
  std::vector<uint64_t> returned;
  Loans lender, borrower;
};

TEST(a_lent_tensor_is_read_in_place_and_given_back_when_it_is_not_needed_any_more) {
  Both both;
  const Tensor tensor = counting(100000);
  const Loan loan = both.lender.lend(tensor);
  CHECK(loan.number != 0);
  CHECK_EQUAL(both.lender.outstanding(), 1u);
  Tensor borrowed = both.borrower.borrow(DType::int32, Shape{100000}, loan.number, loan.offset);
  check_same(borrowed, tensor);
  Tensor copy = borrowed;
  borrowed.reset();
  CHECK_EQUAL(both.lender.outstanding(), 1u);
  copy.reset();
  CHECK_EQUAL(both.lender.outstanding(), 0u);
}

TEST(what_is_in_the_arena_already_is_lent_without_a_copy) {
  Both both;
  const Tensor there = copied_into(arena(), counting(100000));
  const int64_t taken = arena().bytes_taken();
  const Loan loan = both.lender.lend(there);
  CHECK_EQUAL(loan.offset, arena().offset(there.raw()));
  CHECK_EQUAL(arena().bytes_taken(), taken);
  both.lender.returned(loan.number);
}

TEST(small_tensors_and_strings_are_not_lent) {
  Both both;
  CHECK_EQUAL(both.lender.lend(counting(100)).number, 0u);
  CHECK_EQUAL(both.lender.lend(Tensor(DType::string, Shape{10000})).number, 0u);
  CHECK_EQUAL(Loans(nullptr, nullptr, [](uint64_t) {}).lend(counting(100000)).number, 0u);
}

TEST(loans_outside_of_the_peers_memory_are_refused) {
  Both both;
  const uint64_t size = arena().size();
  auto borrow = [&](DType dtype, Shape shape, uint64_t offset) { both.borrower.borrow(dtype, shape, 1, offset); };
  CHECK_FAILS(Code::invalid_argument, "not in its memory", borrow(DType::int32, Shape{100}, size));
  CHECK_FAILS(Code::invalid_argument, "not in its memory", borrow(DType::int32, Shape{100}, size - 64));
  CHECK_FAILS(Code::invalid_argument, "not in its memory", borrow(DType::int32, Shape{100}, ~uint64_t{0} - 63));
  CHECK_FAILS(Code::invalid_argument, "not in its memory", borrow(DType::int32, Shape{100}, 4));
  CHECK_FAILS(Code::invalid_argument, "not in its memory", borrow(DType::int64, Shape{1ll << 56}, 0));
  CHECK_FAILS(Code::invalid_argument, "not in its memory", borrow(DType::int8, Shape{int64_t(size) + 1}, 0));
  CHECK_FAILS(Code::invalid_argument, "has not shared", both.lender.borrow(DType::int8, Shape{1}, 1, 0));
  borrow(DType::int32, Shape{16}, size - 64);
  borrow(DType::int32, Shape{0}, size);
}

TEST(giving_back_what_was_not_lent_is_ignored) {
  Both both;
  const Loan loan = both.lender.lend(counting(100000));
  for (uint64_t number : {uint64_t{0}, loan.number + 1, ~uint64_t{0}}) both.lender.returned(number);
  CHECK_EQUAL(both.lender.outstanding(), 1u);
  both.lender.returned(loan.number);
  both.lender.returned(loan.number);
  CHECK_EQUAL(both.lender.outstanding(), 0u);
}

TEST(after_the_loss_of_the_connection_nothing_is_lent_and_memory_stays_for_a_while) {
  const int64_t taken = arena().bytes_taken();
  Both both;
  CHECK(both.lender.lend(counting(100000)).number != 0);
  both.lender.end();
  CHECK_EQUAL(both.lender.outstanding(), 0u);
  CHECK(arena().bytes_taken() > taken);
  CHECK_EQUAL(both.lender.lend(counting(100000)).number, 0u);
}

}  // namespace
