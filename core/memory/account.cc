// Charging, limits and the accounts that are kept for the next device.
#include "memory/account.h"

#include <mutex>
#include <vector>

#include "error.h"
#include "memory/allocator.h"

namespace thalweg {
namespace {

struct Spare {
  std::mutex mutex;
  std::vector<Account*> accounts;
  size_t made = 0;
};

Spare& spare() {
  static Spare* s = new Spare;
  return *s;
}

}  // namespace

Account* Account::open(const std::string& owner) {
  Account* account = nullptr;
  {
    std::lock_guard lock(spare().mutex);
    if (!spare().accounts.empty()) {
      account = spare().accounts.back();
      spare().accounts.pop_back();
    } else {
      account = new Account;
      spare().accounts.reserve(++spare().made);  // So that `close` needs no memory.
    }
  }
  account->owner_ = owner;
  account->allocations_.store(0);
  account->reset_peak();
  account->set_limit(Allocator::cpu().limit());
  return account;
}

void Account::close() {
  // Live tensors are still charged to it: then the account is not reused.
  if (bytes_in_use() != 0) return;
  std::lock_guard lock(spare().mutex);
  spare().accounts.push_back(this);
}

void Account::charge(int64_t bytes, int64_t asked) {
  const int64_t now = in_use_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (now > limit()) {
    in_use_.fetch_sub(bytes, std::memory_order_relaxed);
    refuse(asked);
  }
  allocations_.fetch_add(1, std::memory_order_relaxed);
  raise_peak(now);
}

void Account::settle(int64_t bytes, int64_t allocations) {
  allocations_.fetch_add(allocations, std::memory_order_relaxed);
  raise_peak(in_use_.fetch_add(bytes, std::memory_order_relaxed) + bytes);
}

void Account::raise_peak(int64_t now) {
  int64_t peak = peak_.load(std::memory_order_relaxed);
  while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

void Account::refuse(int64_t asked) const {
  fail(Code::resource_exhausted, "out of memory on ", owner_, ": allocating ", asked, " bytes on top of ",
       bytes_in_use(), " in use exceeds the device's limit of ", limit(), " bytes");
}

}  // namespace thalweg
