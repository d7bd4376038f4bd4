// Loans: tensors that one task reads in the memory of another on the same host, over one connection.
//
// The lender keeps each tensor that it lends until the borrower gives it back, or until the connection has been lost
// for a while: a peer that only lost the connection may still read. What is lent is never written meanwhile: a lent
// buffer has a second reference, and a buffer with two is immutable. The borrower gets a tensor of Kind::borrowed,
// which is copied where it is kept beyond the step.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "memory/shared_arena.h"
#include "tensor/tensor.h"

namespace thalweg::net {

// The arena of a peer, mapped for reading.
class PeerArena {
 public:
  // Takes the descriptor over; throws UnavailableError if it cannot be mapped, or reading it could end the process.
  explicit PeerArena(int fd);
  ~PeerArena();
  PeerArena(const PeerArena&) = delete;
  const char* base() const { return base_; }
  size_t size() const { return size_; }

 private:
  const char* base_ = nullptr;
  size_t size_ = 0;
};

// A tensor that was lent; number 0: none.
struct Loan {
  uint64_t number = 0;
  uint64_t offset = 0;
};

class Loans {
 public:
  // Smaller tensors are sent as bytes: a loan costs a message to give it back.
  static constexpr size_t kLeast = 32 << 10;

  // `give_back` tells the lender that a loan has ended; called on any thread. `peer` is null if it lends nothing.
  Loans(SharedArena* own, std::shared_ptr<PeerArena> peer, std::function<void(uint64_t)> give_back);
  ~Loans();

  // Lends a tensor, after a copy into the arena if it is elsewhere; none if it is small or there is no arena.
  Loan lend(const Tensor& tensor);
  // The peer has given a loan back; unknown numbers are ignored.
  void returned(uint64_t number);
  // A tensor that the peer has lent; throws InvalidArgumentError if it is not inside of the peer's arena.
  Tensor borrow(DType dtype, Shape shape, uint64_t number, uint64_t offset);
  size_t outstanding();
  // Bytes of all tensors that were ever lent, and borrowed.
  int64_t bytes_lent() const { return bytes_lent_.load(std::memory_order_relaxed); }
  int64_t bytes_borrowed() const { return bytes_borrowed_.load(std::memory_order_relaxed); }
  // How large the arenas are; 0 if there is none.
  size_t own_size() const { return own_ != nullptr ? own_->size() : 0; }
  size_t peer_size() const { return peer_ != nullptr ? peer_->size() : 0; }
  // The connection is lost: nothing more is lent, and what is lent stays for a while.
  void end();

 private:
  SharedArena* const own_;
  const std::shared_ptr<PeerArena> peer_;
  const std::shared_ptr<const std::function<void(uint64_t)>> give_back_;
  std::atomic<int64_t> bytes_lent_{0}, bytes_borrowed_{0};
  std::mutex mutex_;  // guards everything below
  uint64_t last_ = 0;
  bool ended_ = false;
  std::unordered_map<uint64_t, Tensor> lent_;
};

// A copy of a tensor in the arena of this process; unset if the arena is full.
Tensor copied_into(SharedArena& arena, const Tensor& tensor);

}  // namespace thalweg::net
