// The rendezvous table of one step.
#include "executor/rendezvous.h"

namespace thalweg {

void Rendezvous::send(const Key& key, uint64_t iteration, Tensor value) {
  Receive receive;
  {
    std::lock_guard lock(mutex_);
    if (aborted_) throw *aborted_;
    auto found = slots_.try_emplace(Place{key, iteration}).first;
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

bool Rendezvous::try_recv(const Key& key, uint64_t iteration, Tensor& value) {
  std::lock_guard lock(mutex_);
  if (aborted_) throw *aborted_;
  auto found = slots_.find(Place{key, iteration});
  if (found == slots_.end() || found->second.values.empty()) return false;
  Slot& slot = found->second;
  value = std::move(slot.values.front());
  slot.values.erase(slot.values.begin());
  if (slot.values.empty()) slots_.erase(found);
  return true;
}

void Rendezvous::recv(const Key& key, uint64_t iteration, Receive receive) {
  Tensor value;
  std::optional<Error> error;
  {
    std::lock_guard lock(mutex_);
    if (aborted_) {
      error = aborted_;
    } else {
      auto found = slots_.try_emplace(Place{key, iteration}).first;
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

void Rendezvous::abort(const Error& error) {
  std::unordered_map<Place, Slot, Hash> slots;
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
