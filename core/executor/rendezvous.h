// Rendezvous: where the Sends and Recvs of one step meet, by key; also where a partial run's feeds and fetches meet its
// step. An interface: LocalRendezvous joins the devices of one process, other implementations join tasks.
//
// Contract of every implementation. Values under one key and iteration arrive in the order in which they were sent and
// are handed out in that order; either side may come first. Nothing blocks: the callback of `recv` runs at once if the
// value is there, else on the thread that brings it, always without a lock held, and exactly once. `abort` fails all
// waiting and all later calls with its error, and the first abort wins: `recv` reports the error to its callback,
// `send` and `try_recv` throw it. Values that were not received are dropped with the rendezvous, or by `abort`. An
// unset tensor is the dead token. Thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "executor/rendezvous_key.h"
#include "tensor/tensor.h"

namespace thalweg {

class Rendezvous {
 public:
  using Key = RendezvousKey;
  using Receive = std::function<void(std::optional<Error>, Tensor)>;

  explicit Rendezvous(int64_t step) : step_(step) {}
  virtual ~Rendezvous() = default;
  // The number of the step, which all its tasks know it by.
  int64_t step() const { return step_; }
  // `at` tells apart the values that one Send sends in the iterations of a loop.
  virtual void send(const Key& key, FrameIteration at, Tensor value) = 0;
  // Values for one device, under keys of their own: between tasks they are one message.
  virtual void send_all(std::span<const Key> keys, FrameIteration at, std::vector<Tensor> values) {
    for (size_t i = 0; i < keys.size(); ++i) send(keys[i], at, std::move(values[i]));
  }
  virtual void recv(const Key& key, FrameIteration at, Receive receive) = 0;
  // Takes the value if it is there.
  virtual bool try_recv(const Key& key, FrameIteration at, Tensor& value) = 0;
  virtual void abort(const Error& error) = 0;

 private:
  const int64_t step_;
};

}  // namespace thalweg
