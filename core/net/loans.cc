// Lending and borrowing tensors in shared memory.
#include "net/loans.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstring>

#include "thread/parallel.h"
#include "thread/thread_pool.h"

namespace thalweg::net {
namespace {

// A peer that has lost the connection aborts its steps within this time.
constexpr std::chrono::seconds kQuarantine(30);
constexpr int64_t kGrain = 1 << 20;
constexpr uint64_t kAlignment = 64;  // what kernels expect of elements

struct Ticket {
  std::shared_ptr<PeerArena> arena;
  std::shared_ptr<const std::function<void(uint64_t)>> give_back;
  uint64_t number;
};

void release_ticket(void* owner) {
  std::unique_ptr<Ticket> ticket(static_cast<Ticket*>(owner));
  (*ticket->give_back)(ticket->number);
}

struct ArenaBlock {
  SharedArena* arena;
  void* block;
  size_t bytes;
};

void release_block(void* owner) {
  std::unique_ptr<ArenaBlock> block(static_cast<ArenaBlock*>(owner));
  block->arena->give(block->block, block->bytes);
}

}  // namespace

PeerArena::PeerArena(int fd) {
  struct stat status{};
  struct statfs system{};
  void* base = nullptr;
  // Sealed against shrinking: else a peer could take the pages away, and reading them would end the process. So would
  // reading a hole in memory of huge pages, which has seals, too, if there are none left.
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && fstatfs(fd, &system) == 0 && system.f_type == TMPFS_MAGIC &&
      fstat(fd, &status) == 0 && status.st_size > 0 &&
      static_cast<size_t>(status.st_size) <= SharedArena::most_bytes()) {
    size_ = static_cast<size_t>(status.st_size);
    base = HugePages::map(fd, size_, PROT_READ);
  }
  ::close(fd);
  if (base == nullptr) fail(Code::unavailable, "the shared memory of a peer cannot be mapped");
  base_ = static_cast<const char*>(base);
}

PeerArena::~PeerArena() { munmap(const_cast<char*>(base_), size_); }

Loans::Loans(SharedArena* own, std::shared_ptr<PeerArena> peer, std::function<void(uint64_t)> give_back)
    : own_(own),
      peer_(std::move(peer)),
      give_back_(std::make_shared<const std::function<void(uint64_t)>>(std::move(give_back))) {}

Loans::~Loans() { end(); }

void Loans::end() {
  auto kept = std::make_shared<std::unordered_map<uint64_t, Tensor>>();
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
    kept->swap(lent_);
  }
  if (kept->empty()) return;
  Timers::shared().at(Timers::Clock::now() + kQuarantine, [kept] { kept->clear(); });
}

Loan Loans::lend(const Tensor& tensor) {
  if (own_ == nullptr || !is_plain(tensor.dtype()) || tensor.bytes() < kLeast) return {};
  const bool there = own_->contains(tensor.raw()) && own_->offset(tensor.raw()) % kAlignment == 0;
  Tensor shared = there ? tensor : copied_into(*own_, tensor);
  if (!shared.defined()) return {};
  const uint64_t offset = own_->offset(shared.raw());
  std::lock_guard lock(mutex_);
  if (ended_) return {};
  bytes_lent_.fetch_add(static_cast<int64_t>(shared.bytes()), std::memory_order_relaxed);
  lent_.emplace(++last_, std::move(shared));
  return {last_, offset};
}

void Loans::returned(uint64_t number) {
  Tensor gone;
  std::lock_guard lock(mutex_);
  auto found = lent_.find(number);
  if (found == lent_.end()) return;
  gone = std::move(found->second);
  lent_.erase(found);
}

Tensor Loans::borrow(DType dtype, Shape shape, uint64_t number, uint64_t offset) {
  size_t bytes;
  require(peer_ != nullptr, "a peer lends memory that it has not shared");
  require(!__builtin_mul_overflow(static_cast<size_t>(shape.num_elements()), size_of(dtype), &bytes) &&
              offset <= peer_->size() && bytes <= peer_->size() - offset && offset % kAlignment == 0,
          "a peer lends a tensor of shape ", shape, " that is not in its memory");
  bytes_borrowed_.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  auto* data = const_cast<char*>(peer_->base() + offset);
  Buffer* buffer = Buffer::borrow(data, bytes, new Ticket{peer_, give_back_, number}, release_ticket);
  return Tensor(dtype, std::move(shape), buffer, data);
}

size_t Loans::outstanding() {
  std::lock_guard lock(mutex_);
  return lent_.size();
}

Tensor copied_into(SharedArena& arena, const Tensor& tensor) {
  const size_t bytes = tensor.bytes();
  void* block = arena.take(bytes);
  if (block == nullptr) return Tensor();
  parallel_for(static_cast<int64_t>(bytes), kGrain, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char*>(block) + begin, static_cast<const char*>(tensor.raw()) + begin,
                static_cast<size_t>(end - begin));
  });
  Buffer* buffer =
      Buffer::borrow(block, bytes, new ArenaBlock{&arena, block, bytes}, release_block, Buffer::Kind::zeros);
  return Tensor(tensor.dtype(), tensor.shape(), buffer, block);
}

}  // namespace thalweg::net
