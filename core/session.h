// Session: the native side of a session: its device, the kernels of stateful nodes, and the steps that are running.
//
// Thread-safe. `close` aborts every running step with CancelledError and refuses new ones; state in the session's own
// container goes when the session is destroyed.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>

#include "executor/executor.h"

namespace thalweg {

class Session {
 public:
  explicit Session(std::string device_name);
  ~Session();

  Device& device() { return device_; }
  std::shared_ptr<const Plan> compile(std::vector<NodeSpec> specs, int num_feeds,
                                      std::vector<std::pair<int32_t, int32_t>> fetches);
  KernelMaker kernel_maker() {
    return [this](const NodeSpec& spec) { return kernel_of(spec); };
  }
  // Registers a step for as long as the guard lives.
  class Running {
   public:
    Running(Session& session, Step* step);
    ~Running();
    Running(const Running&) = delete;

   private:
    Session& session_;
    Step* step_;
  };
  void close();
  bool closed();

 private:
  std::shared_ptr<Kernel> kernel_of(const NodeSpec& spec);

  Device device_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<Kernel>> stateful_;
  std::set<Step*> running_;
  bool closed_ = false;
};

}  // namespace thalweg
