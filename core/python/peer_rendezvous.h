// PeerRendezvous: the rendezvous of a step of which other processes run parts, with Python carrying tensors over.
//
// Values sent to a device of this process stay here. For anything else `outgoing` is called with the text of the
// transfer (executor/rendezvous_key.h) and the tensor, on the thread that sends it, without a lock held; values from
// other processes are handed to `deliver`, before or after the step asks for them.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "executor/local_rendezvous.h"

namespace thalweg {

class PeerRendezvous final : public Rendezvous {
 public:
  using Outgoing = std::function<void(const std::string& transfer, const Tensor& value)>;

  PeerRendezvous(int64_t step, const std::vector<std::string>& devices, Outgoing outgoing);

  void send(const Key& key, FrameIteration at, Tensor value) override;
  void recv(const Key& key, FrameIteration at, Receive receive) override { local_.recv(key, at, std::move(receive)); }
  bool try_recv(const Key& key, FrameIteration at, Tensor& value) override { return local_.try_recv(key, at, value); }
  void abort(const Error& error) override { local_.abort(error); }

  // Throws InvalidArgumentError if the text is not that of a transfer to a device of this process.
  void deliver(const std::string& transfer, Tensor value);

 private:
  bool is_here(std::string_view device) const { return devices_.contains(std::string(device)); }

  const std::set<std::string> devices_;
  const Outgoing outgoing_;
  LocalRendezvous local_;
};

void bind_peer_rendezvous(nanobind::module_& m);

}  // namespace thalweg
