// EagerOp: one op that runs at once: a node with its kernel, made once for its attributes, element types and device.
//
// There is no step around it, no plan and no schedule: `run` calls the kernel on the calling thread, through run_node
// as every executor does. The inputs stay the caller's: a kernel writes none of them in place, since the caller still
// holds them. An asynchronous kernel that must wait (a queue's) is waited for; `poll` is called meanwhile, and may
// throw to give up.
//
// Any number of threads may run one op at once, as with every kernel. Ops that call functions are not run so, nor those
// on devices whose memory the host cannot read: they need a planned step.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "device/device.h"
#include "kernel/kernel.h"

namespace thalweg {

class PromptKernel;

class EagerOp {
 public:
  // Throws if the device has no kernel for the node, or the kernel refuses its attributes.
  EagerOp(NodeDef def, std::shared_ptr<Device> device);

  int num_inputs() const { return static_cast<int>(def_.input_dtypes.size()); }
  int num_outputs() const { return static_cast<int>(def_.output_dtypes.size()); }
  const NodeDef& def() const { return def_; }
  Device& device() const { return *device_; }
  // Whether a run may wait for something that another thread does.
  bool may_wait() const { return async_; }

  // Runs the op. `inputs` are of the declared types, which the caller has checked; `outputs` are unset before.
  void run(Tensor* inputs, Tensor* outputs, const std::function<void()>& poll) const;

 private:
  void wait(Tensor* inputs, Tensor* outputs, const std::function<void()>& poll) const;

  NodeDef def_;
  std::shared_ptr<Device> device_;
  std::unique_ptr<Kernel> kernel_;
  PromptKernel* prompt_ = nullptr;
  bool async_ = false;
};

}  // namespace thalweg
