// Rendezvous: where a Send and its Recv meet, by key; also where a partial run's feeds and fetches meet its step.
//
// Values under one key arrive in order and are handed out in order; either side may come first. `recv` never blocks:
// its callback runs at once if the value is there, else on the sender's thread, always without the lock. `abort` fails
// all waiting and all later calls. An empty tensor is the dead token. Thread-safe.
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "tensor/tensor.h"

namespace thalweg {

class Rendezvous {
 public:
  using Receive = std::function<void(std::optional<Error>, Tensor)>;

  void send(const std::string& key, Tensor value);
  // Returns a token with which `forget` can withdraw a waiting callback, or 0 if the callback has already run.
  int64_t recv(const std::string& key, Receive receive);
  // Withdraws a waiting callback without calling it; false if it has run or is running.
  bool forget(const std::string& key, int64_t token);
  void abort(const Error& error);

 private:
  struct Slot {
    std::deque<Tensor> values;
    std::deque<std::pair<int64_t, Receive>> waiting;
  };
  std::mutex mutex_;
  std::unordered_map<std::string, Slot> slots_;
  std::optional<Error> aborted_;
  int64_t next_ = 1;
};

}  // namespace thalweg
