// StepRendezvous: the rendezvous of a step that other tasks take part in.
//
// What is sent to a device of this task stays here; anything else goes to the peer that has the device, at once: the
// sender knows the receiver from the plan. A key travels as its hash (executor/rendezvous_key.h), which both sides
// compute; a step in which two keys have the same hash is refused when it is compiled.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "executor/local_rendezvous.h"

namespace thalweg::net {

class Connection;

// The connections to the tasks that take part in a step, as they were when it was planned.
class Routes {
 public:
  // Pairs of a task's name ("/job:ps/replica:0/task:0") and the connection to it.
  explicit Routes(std::vector<std::pair<std::string, std::shared_ptr<Connection>>> peers) : peers_(std::move(peers)) {}
  // The connection to the task of a device; InternalError if the step has no such task.
  const std::shared_ptr<Connection>& to(std::string_view device) const;
  bool has(const Connection* peer) const;
  std::vector<std::shared_ptr<Connection>> connections() const;
  // A connection that is lost, or null.
  std::shared_ptr<Connection> lost() const;

 private:
  std::vector<std::pair<std::string, std::shared_ptr<Connection>>> peers_;
};

// Whether a device's full name belongs to a task.
bool is_of_task(std::string_view device, std::string_view task);

class StepRendezvous final : public Rendezvous {
 public:
  StepRendezvous(int64_t step, const std::string& task) : Rendezvous(step), task_(task), local_(step) {}
  // Before the step sends anything.
  void set_routes(std::shared_ptr<const Routes> routes) { routes_ = std::move(routes); }

  void send(const Key& key, FrameIteration at, Tensor value) override;
  void send_all(std::span<const Key> keys, FrameIteration at, std::vector<Tensor> values) override;
  void recv(const Key& key, FrameIteration at, Receive receive) override { local_.recv(key, at, std::move(receive)); }
  bool try_recv(const Key& key, FrameIteration at, Tensor& value) override { return local_.try_recv(key, at, value); }
  void abort(const Error& error) override { local_.abort(error); }
  // A tensor from a peer. `hold`: as of LocalRendezvous.
  void deliver(uint64_t key, FrameIteration at, Tensor value,
               const std::function<LocalRendezvous::Hold(const Tensor&)>& hold) {
    local_.deliver(key, at, std::move(value), hold);
  }

 private:
  bool stays_here(const Key& key) const;
  // A message of this step with these tensors; the keys behind the first one are in its body.
  void push(std::span<const Key> keys, FrameIteration at, std::vector<Tensor> values);

  const std::string& task_;
  std::shared_ptr<const Routes> routes_;
  LocalRendezvous local_;
};

}  // namespace thalweg::net
