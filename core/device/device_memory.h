// DeviceMemory: the memory of a device whose tensors the host cannot read, with copies to it, and the device's kernels.
//
// The interface that the host needs of such a device; plugin/plugin_memory.h implements it. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "memory/account.h"
#include "tensor/tensor.h"

namespace thalweg {

class Kernel;
struct Device;
struct NodeDef;

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual int64_t memory_bytes() const = 0;
  // Copies a tensor of the host's; calls `arrived` once, on any thread.
  using Arrived = std::function<void(std::optional<Error>, Tensor)>;
  virtual void upload(Tensor host, Account* account, Arrived arrived) = 0;
  // The device's own kernel for a node, or null.
  virtual std::unique_ptr<Kernel> make_kernel(const NodeDef& def, Device& device) = 0;
};

}  // namespace thalweg
