// Account: the memory that the tensors of one device hold: bytes now and at their peak, the limit, the number of
// allocations.
//
// Every block of a tensor is charged to the account of the device that allocated it, for as long as the block lives,
// wherever the tensor goes: a Send to another CPU device hands the buffer over without a copy, and the bytes stay on
// the account of the device that allocated it. The block remembers its account, so any thread may release it.
//
// The executor makes its device's account the current one of the thread that drives it (AccountScope); helpers of
// parallel loops and threads of the pool take over the account of the thread that submitted the work. So kernels
// allocate without knowing about accounts, and later allocations of asynchronous kernels are charged to their device
// too. Without a current account (fed arrays, constants while a step is compiled) memory counts for the process only.
//
// Blocks above 32 KB are counted at once. Smaller ones are counted per thread and handed on when 64 KB have come
// together and when the thread's scope ends, because they are allocated every few nanoseconds: while steps run the
// figures may be late by that much per thread; between steps they are exact.
//
// Thread-safe. Accounts are never destroyed, for a tensor may outlive its session: `close` keeps the object for the
// next device if nothing is charged to it any more.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace thalweg {

class alignas(64) Account {
 public:
  // For a device of this name, with as much memory as the machine has.
  static Account* open(const std::string& owner);
  void close();

  int64_t bytes_in_use() const { return in_use_.load(std::memory_order_relaxed); }
  int64_t peak_bytes() const { return peak_.load(std::memory_order_relaxed); }
  int64_t allocations() const { return allocations_.load(std::memory_order_relaxed); }
  int64_t limit() const { return limit_.load(std::memory_order_relaxed); }
  void set_limit(int64_t bytes) { limit_.store(bytes, std::memory_order_relaxed); }
  void reset_peak() { peak_.store(bytes_in_use(), std::memory_order_relaxed); }

  // Charges an allocation at once; fails with ResourceExhausted, charging nothing, beyond the limit. `asked` is the
  // size in the error message, before rounding.
  void charge(int64_t bytes, int64_t asked);
  void discharge(int64_t bytes) { in_use_.fetch_sub(bytes, std::memory_order_relaxed); }
  // Adds the bytes and allocations that a thread has counted on its own.
  void settle(int64_t bytes, int64_t allocations);

 private:
  Account() = default;
  void raise_peak(int64_t now);
  [[noreturn]] void refuse(int64_t asked) const;

  std::string owner_;
  std::atomic<int64_t> in_use_{0};
  std::atomic<int64_t> peak_{0};
  std::atomic<int64_t> allocations_{0};
  std::atomic<int64_t> limit_{INT64_MAX};
};

// The account that this thread's allocations are charged to, or null.
Account* current_account();

// Makes an account the thread's current one for as long as it lives; settles the thread's own counts at its end.
class AccountScope {
 public:
  explicit AccountScope(Account* account);
  ~AccountScope();
  AccountScope(const AccountScope&) = delete;

 private:
  Account* before_;
};

}  // namespace thalweg
