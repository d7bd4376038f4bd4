// The table of values and of waiting receivers.
#include "executor/local_rendezvous.h"

namespace thalweg {

void LocalRendezvous::send(const Key& key, FrameIteration at, Tensor value) {
  deliver(key.hash(), at, std::move(value));
}

bool LocalRendezvous::hand_over(const Place& place, Tensor& value, Hold* hold) {
  Receive receive;
  {
    std::lock_guard lock(mutex_);
    if (aborted_) throw *aborted_;
    auto found = hold != nullptr ? slots_.try_emplace(place).first : slots_.find(place);
    if (found == slots_.end()) return false;
    Slot& slot = found->second;
    if (slot.waiting.empty()) {
      if (hold != nullptr) slot.values.push_back({std::move(value), std::move(*hold)});
      return false;
    }
    receive = std::move(slot.waiting.front());
    slot.waiting.erase(slot.waiting.begin());
    if (slot.waiting.empty()) slots_.erase(found);
  }
  receive(std::nullopt, std::move(value));
  return true;
}

void LocalRendezvous::deliver(uint64_t key, FrameIteration at, Tensor value,
                              const std::function<Hold(const Tensor&)>& hold) {
  const Place place{key, at};
  Hold held;
  if (hold) {
    if (hand_over(place, value, nullptr)) return;
    held = hold(value);
  }
  hand_over(place, value, &held);
}

LocalRendezvous::Value LocalRendezvous::taken(Slots::iterator found) {
  Slot& slot = found->second;
  Value value = std::move(slot.values.front());
  slot.values.erase(slot.values.begin());
  if (slot.values.empty()) slots_.erase(found);
  return value;
}

bool LocalRendezvous::try_recv(const Key& key, FrameIteration at, Tensor& value) {
  Hold gone;
  std::lock_guard lock(mutex_);
  if (aborted_) throw *aborted_;
  auto found = slots_.find(Place{key.hash(), at});
  if (found == slots_.end() || found->second.values.empty()) return false;
  Value first = taken(found);
  value = std::move(first.tensor);
  gone = std::move(first.hold);
  return true;
}

void LocalRendezvous::recv(const Key& key, FrameIteration at, Receive receive) {
  Value value;
  std::optional<Error> error;
  {
    std::lock_guard lock(mutex_);
    if (aborted_) {
      error = aborted_;
    } else {
      auto found = slots_.try_emplace(Place{key.hash(), at}).first;
      if (found->second.values.empty()) {
        found->second.waiting.push_back(std::move(receive));
        return;
      }
      value = taken(found);
    }
  }
  value.hold.reset();
  receive(error, std::move(value.tensor));
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
