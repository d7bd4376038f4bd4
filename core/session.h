// Session: the native side of a session: its devices, the kernels of stateful nodes, and the steps that are running.
//
// Thread-safe. `close` aborts every running step with CancelledError and refuses new ones; state in the session's own
// container goes when the session is destroyed. Closing also gives unused memory back to the system. The sessions of a
// server share its devices, and the state on them stays.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "executor/executor.h"
#include "function/function.h"
#include "thread/forks.h"

namespace thalweg {

class Session {
 public:
  using Fetches = std::vector<std::pair<int32_t, int32_t>>;

  // Full device names ("/job:localhost/replica:0/task:0/device:CPU:0"), at least one.
  explicit Session(const std::vector<std::string>& device_names);
  // A session on devices of a server.
  using Devices = std::vector<std::shared_ptr<Device>>;
  explicit Session(Devices devices) : devices_(std::move(devices)), owns_devices_(false) {}
  // Makes devices: for a session of its own, or, with an incarnation, for a server.
  static Devices make_devices(const std::vector<std::string>& names, uint64_t incarnation = 0);
  ~Session();

  const Devices& devices() const { return devices_; }
  // The device of this name; the first one for an empty name.
  const std::shared_ptr<Device>& device(const std::string& name = "") const;
  std::shared_ptr<Plan> compile(std::vector<NodeSpec> specs, int num_feeds, Fetches fetches, Device& device);
  KernelMaker kernel_maker(Device& device) {
    return [this, &device](const NodeSpec& spec) { return kernel_of(spec, device); };
  }

  // The functions that steps of this session call, by name; null if there is none. They lose their bodies with the
  // session: kernels and resources that still hold one get an error.
  std::shared_ptr<Function> function(const std::string& name);
  std::shared_ptr<Function> declare(std::shared_ptr<Function> function);
  void define(Function& function, std::vector<NodeSpec> specs, Fetches results, const std::string& device);
  // Takes a declaration back whose body could not be compiled.
  void drop(const std::string& name);

  // Registers a step for as long as the guard lives.
  class Running {
   public:
    Running(Session& session, Step* step);
    ~Running();
    Running(const Running&) = delete;

   private:
    friend class Session;
    Session& session_;
    Step* const step_;
    Running *before_ = nullptr, *after_ = nullptr;  // in the session's list of them
  };
  void close();
  bool closed();
  // Steps that are compiled from now on run nodes on at most so many threads, of this session's own; else they share
  // those of the process.
  void limit_inter_op_threads(int most) { limit_ = std::make_shared<InterOpLimit>(most); }

 private:
  void cancel_steps();
  std::shared_ptr<Kernel> kernel_of(const NodeSpec& spec, Device& device);

  const Devices devices_;  // shared with the bodies of functions
  const bool owns_devices_ = true;
  std::shared_ptr<InterOpLimit> limit_ = InterOpLimit::of_process();
  std::mutex mutex_;
  // A kernel that later steps find by its node's name, with the types that it was made for.
  struct StatefulKernel {
    // The kernel for a node of that name; InvalidArgumentError if the node has other types.
    const std::shared_ptr<Kernel>& of(const NodeDef& def) const;
    std::shared_ptr<Kernel> kernel;
    std::vector<DType> input_dtypes, output_dtypes;
  };
  std::unordered_map<std::string, StatefulKernel> stateful_;
  std::map<std::string, std::shared_ptr<Function>> functions_;
  Running* running_ = nullptr;  // the first in the list
  Forks::Steps steps_;          // as many as in the list
  bool closed_ = false;
};

}  // namespace thalweg
