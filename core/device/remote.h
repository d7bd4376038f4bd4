// RemoteMemory: a device of a plug-in with memory of its own: tensors in it, copies to and from the host, its kernels.
//
// A tensor on such a device is a Tensor whose buffer is *remote*: shape and element type are known here, the elements
// are not. It holds the device open. Only the device's own kernels and those that pass tensors on see such tensors;
// a Recv brings them across (`deliver`). Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../../src/thalweg/include/thalweg/device_plugin.h"
#include "kernel/kernel.h"

namespace thalweg {

struct Plugin {
  std::string path;
  const tw_device_plugin* table;
  std::string type;
};

// Loads a plug-in, once for each path; throws Error if it is none, or does not fit.
const Plugin& load_plugin(const std::string& path);
// The plug-in that has a type of device, or null.
const Plugin* plugin_of(const std::string& device_type);

class RemoteMemory : public std::enable_shared_from_this<RemoteMemory> {
 public:
  // The device with this index: opened now, or the one that is open already.
  static std::shared_ptr<RemoteMemory> open(const Plugin& plugin, int index);
  ~RemoteMemory();

  const Plugin& plugin() const { return plugin_; }
  void* handle() const { return handle_; }
  int64_t memory_bytes() const;
  // An uninitialized tensor, charged to the account.
  Tensor allocate(DType dtype, Shape shape, Account* account);
  // Calls `arrived` once, on any thread.
  using Arrived = std::function<void(std::optional<Error>, Tensor)>;
  void upload(Tensor host, Account* account, Arrived arrived);
  static void download(Tensor remote, Account* account, Arrived arrived);

 private:
  RemoteMemory(const Plugin& plugin, int index);
  static void close(RemoteMemory* device);

  const Plugin& plugin_;
  void* handle_;
};

// The same report, which says Cancelled when the step ends before; what comes later is dropped. The step must live
// until `arrived` has been called.
RemoteMemory::Arrived cancellable(Step& step, RemoteMemory::Arrived arrived);

// Brings a tensor, wherever it is, to where a device wants it: its own memory, or the host's.
void deliver(Tensor value, Device& device, bool to_host, RemoteMemory::Arrived arrived);

// The plug-in's kernel for a node, or null.
std::unique_ptr<Kernel> make_remote_kernel(const NodeDef& def, Device& device);

}  // namespace thalweg
