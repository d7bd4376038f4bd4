// PluginMemory: the memory of one device of a plug-in: tensors in it, copies to and from the host.
//
// A tensor on such a device is a Tensor whose buffer is of the kind `device`: shape and element type are known here,
// the elements are not. The tensor holds the device open. Only the device's own kernels and those that pass tensors on
// see such tensors; a Recv copies them across (`deliver`). Thread-safe.
#pragma once

#include <memory>

#include "device/device.h"
#include "plugin/plugin.h"

namespace thalweg {

class Step;

class PluginMemory : public DeviceMemory, public std::enable_shared_from_this<PluginMemory> {
 public:
  // The device with this index: opened now, or the one that is open already.
  static std::shared_ptr<PluginMemory> open(const Plugin& plugin, int index);
  ~PluginMemory() override;

  const Plugin& plugin() const { return plugin_; }
  void* handle() const { return handle_; }
  int64_t memory_bytes() const override;
  // An uninitialized tensor, charged to the account.
  Tensor allocate(DType dtype, Shape shape, Account* account);
  void upload(Tensor host, Account* account, Arrived arrived) override;
  // Copies a tensor of any plug-in's device to the host; calls `arrived` once, on any thread.
  static void download(Tensor on_device, Account* account, Arrived arrived);
  std::unique_ptr<Kernel> make_kernel(const NodeDef& def, Device& device) override;

 private:
  PluginMemory(const Plugin& plugin, int index);
  static void close(PluginMemory* memory);

  const Plugin& plugin_;
  void* handle_;
};

// A callback that forwards the first of two reports: that of the copy, or Cancelled when the step ends. The step must
// live until `arrived` has been called.
DeviceMemory::Arrived cancellable(Step& step, DeviceMemory::Arrived arrived);

// Copies a tensor from any memory to that of a device or, with `to_host`, of the host.
void deliver(Tensor value, Device& device, bool to_host, DeviceMemory::Arrived arrived);

}  // namespace thalweg
