// Device: where kernels run: a full name, a type that selects kernels, its incarnation, the account of its memory, and
// its resources.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "device/device_memory.h"
#include "device/incarnation.h"
#include "memory/account.h"
#include "resource/manager.h"

namespace thalweg {

namespace net {
class Collectives;
}

// The collectives that the devices of one session, or of one server, share.
struct DeviceFamily {
  std::mutex mutex;
  std::shared_ptr<net::Collectives> collectives;  // a server's
  std::shared_ptr<net::Collectives> own;          // of a session without a server; made on first use
};

struct Device {
  Device(std::string name, std::string type)
      : name(std::move(name)),
        type(std::move(type)),
        incarnation(device_incarnation(this->name)),
        account(Account::open(this->name)) {}
  // A device of a server, with the server's incarnation and containers of its own.
  Device(std::string name, std::string type, uint64_t incarnation)
      : name(std::move(name)),
        type(std::move(type)),
        incarnation(incarnation),
        lends(true),
        account(Account::open(this->name)),
        resources(ResourceManager::Named::own) {}
  ~Device() {
    resources.clear("");
    account->close();
  }
  Device(const Device&) = delete;

  const std::string name;  // "/job:localhost/replica:0/task:0/device:CPU:0"
  const std::string type;  // "CPU"
  const uint64_t incarnation;
  const bool lends = false;  // whether it belongs to a task, whose peers may read its tensors in shared memory
  Account* const account;
  ResourceManager resources;
  // The memory of a device whose tensors the host cannot read; null where tensors are the host's.
  std::shared_ptr<DeviceMemory> memory;
  std::shared_ptr<DeviceFamily> family = std::make_shared<DeviceFamily>();
};

}  // namespace thalweg
