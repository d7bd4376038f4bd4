// The rendezvous table of one step.
#include "executor/rendezvous.h"

namespace thalweg {

void Rendezvous::send(const std::string& key, Tensor value) {
  Receive receive;
  {
    std::lock_guard lock(mutex_);
    if (aborted_) throw *aborted_;
    Slot& slot = slots_[key];
    if (slot.waiting.empty()) {
      slot.values.push_back(std::move(value));
      return;
    }
    receive = std::move(slot.waiting.front().second);
    slot.waiting.pop_front();
    if (slot.waiting.empty()) slots_.erase(key);
  }
  receive(std::nullopt, std::move(value));
}

int64_t Rendezvous::recv(const std::string& key, Receive receive) {
  Tensor value;
  std::optional<Error> error;
  {
    std::lock_guard lock(mutex_);
    if (aborted_) {
      error = aborted_;
    } else {
      Slot& slot = slots_[key];
      if (slot.values.empty()) {
        slot.waiting.emplace_back(next_, std::move(receive));
        return next_++;
      }
      value = std::move(slot.values.front());
      slot.values.pop_front();
      if (slot.values.empty()) slots_.erase(key);
    }
  }
  receive(error, std::move(value));
  return 0;
}

bool Rendezvous::forget(const std::string& key, int64_t token) {
  std::lock_guard lock(mutex_);
  auto found = slots_.find(key);
  if (found == slots_.end()) return false;
  auto& waiting = found->second.waiting;
  for (auto it = waiting.begin(); it != waiting.end(); ++it) {
    if (it->first == token) {
      waiting.erase(it);
      return true;
    }
  }
  return false;
}

void Rendezvous::abort(const Error& error) {
  std::unordered_map<std::string, Slot> slots;
  {
    std::lock_guard lock(mutex_);
    if (aborted_) return;
    aborted_ = error;
    slots.swap(slots_);
  }
  for (auto& [key, slot] : slots)
    for (auto& [token, receive] : slot.waiting) receive(error, Tensor());
}

}  // namespace thalweg
