// The table of values and of waiting receivers.
#include "executor/local_rendezvous.h"

namespace thalweg {

void LocalRendezvous::send(const Key& key, FrameIteration at, Tensor value) {
  deliver(key.hash(), at, std::move(value));
}

void LocalRendezvous::deliver(uint64_t key, FrameIteration at, Tensor value) {
  Receive receive;
  {
    std::lock_guard lock(mutex_);
    if (aborted_) throw *aborted_;
    auto found = slots_.try_emplace(Place{key, at}).first;
    Slot& slot = found->second;
    if (slot.waiting.empty()) {
      slot.values.push_back(std::move(value));
      return;
    }
    receive = std::move(slot.waiting.front());
    slot.waiting.erase(slot.waiting.begin());
    if (slot.waiting.empty()) slots_.erase(found);
  }
  receive(std::nullopt, std::move(value));
}

bool LocalRendezvous::try_recv(const Key& key, FrameIteration at, Tensor& value) {
  std::lock_guard lock(mutex_);
  if (aborted_) throw *aborted_;
  auto found = slots_.find(Place{key.hash(), at});
  if (found == slots_.end() || found->second.values.empty()) return false;
  Slot& slot = found->second;
  value = std::move(slot.values.front());
  slot.values.erase(slot.values.begin());
  if (slot.values.empty()) slots_.erase(found);
  return true;
}

void LocalRendezvous::recv(const Key& key, FrameIteration at, Receive receive) {
  Tensor value;
  std::optional<Error> error;
  {
    std::lock_guard lock(mutex_);
    if (aborted_) {
      error = aborted_;
    } else {
      auto found = slots_.try_emplace(Place{key.hash(), at}).first;
      Slot& slot = found->second;
      if (slot.values.empty()) {
        slot.waiting.push_back(std::move(receive));
        return;
      }
      value = std::move(slot.values.front());
      slot.values.erase(slot.values.begin());
      if (slot.values.empty()) slots_.erase(found);
    }
  }
  receive(error, std::move(value));
}

void LocalRendezvous::abort(const Error& error) {
  Slots slots;
  {
    std::lock_guard lock(mutex_);
    if (aborted_) return;
    aborted_ = error;
    slots.swap(slots_);
  }
  for (auto& [place, slot] : slots)
    for (Receive& receive : slot.waiting) receive(error, Tensor());
}

}  // namespace thalweg
