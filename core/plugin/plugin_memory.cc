// Tensors on the devices of plug-ins: allocation, copies, and their delivery.
#include "plugin/plugin_memory.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <unordered_map>

#include "executor/step.h"
#include "kernel/kernel.h"
#include "plugin/plugin_kernels.h"
#include "thread/thread_pool.h"

namespace thalweg {
namespace {

using Ended = std::function<void(std::optional<Error>)>;

// Copies under way. The plug-in knows them by number, so that one reported twice does no harm.
class Copies {
 public:
  static Copies& shared() {
    static Copies* copies = new Copies;
    return *copies;
  }
  void* begin(Ended ended) {
    std::lock_guard lock(mutex_);
    under_way_.emplace(++last_, std::move(ended));
    return reinterpret_cast<void*>(static_cast<uintptr_t>(last_));
  }
  static void done(void* arg, const tw_error* error) { shared().end(reinterpret_cast<uintptr_t>(arg), error); }

 private:
  void end(uint64_t number, const tw_error* error) {
    Ended ended;
    {
      std::lock_guard lock(mutex_);
      auto found = under_way_.find(number);
      if (found == under_way_.end()) return;
      ended = std::move(found->second);
      under_way_.erase(found);
    }
    ended(error_of(error));
  }

  std::mutex mutex_;
  uint64_t last_ = 0;
  std::unordered_map<uint64_t, Ended> under_way_;
};

struct Block {
  std::shared_ptr<PluginMemory> device;
  void* memory;
  uint64_t bytes;
  Account* account;

  static void release(void* self) {
    std::unique_ptr<Block> block(static_cast<Block*>(self));
    if (block->memory != nullptr)
      block->device->plugin().table->release(block->device->handle(), block->memory, block->bytes);
    if (block->account != nullptr) block->account->discharge(static_cast<int64_t>(block->bytes));
  }
};

const PluginMemory& device_of(const Tensor& on_device) {
  return *static_cast<Block*>(on_device.buffer()->owner())->device;
}

}  // namespace

std::optional<Error> error_of(const tw_error* error) {
  if (error == nullptr || error->code == TW_OK) return std::nullopt;
  const bool known = error->code > 0 && error->code <= static_cast<int>(Code::unauthenticated);
  const char* end = std::find(error->message, error->message + sizeof error->message, '\0');
  std::string message(error->message, end);
  return Error(known ? Code(error->code) : Code::unknown, message.empty() ? "the device gave no reason" : message);
}

PluginMemory::PluginMemory(const Plugin& plugin, int index) : plugin_(plugin) {
  require(index >= 0 && index < plugin.table->num_devices, "there is no /device:", plugin.type, ":", index,
          ": the plug-in '", plugin.path, "' has ", plugin.table->num_devices, " devices");
  tw_error error{};
  handle_ = plugin.table->open(index, &host_interface(), &error);
  if (auto failure = error_of(&error))
    fail(failure->code(), "cannot open /device:", plugin.type, ":", index, ": ", failure->message());
}

PluginMemory::~PluginMemory() { plugin_.table->close(handle_); }

int64_t PluginMemory::memory_bytes() const {
  return static_cast<int64_t>(std::min<uint64_t>(plugin_.table->memory_bytes(handle_), INT64_MAX));
}

Tensor PluginMemory::allocate(DType dtype, Shape shape, Account* account) {
  require(is_plain(dtype) && size_of(dtype) > 0, "tensors of type ", dtype, " cannot be on a device of type ",
          plugin_.type);
  uint64_t bytes;
  if (__builtin_mul_overflow(static_cast<uint64_t>(shape.num_elements()), size_of(dtype), &bytes) || bytes > INT64_MAX)
    fail(Code::resource_exhausted, "a tensor of shape ", shape, " and type ", dtype, " is too large");
  if (account != nullptr) account->charge(static_cast<int64_t>(bytes), static_cast<int64_t>(bytes));
  auto block = std::make_unique<Block>(Block{shared_from_this(), nullptr, bytes, account});
  if (bytes > 0) {
    tw_error error{};
    block->memory = plugin_.table->allocate(handle_, bytes, &error);
    if (block->memory == nullptr) {
      if (account != nullptr) account->discharge(static_cast<int64_t>(bytes));
      auto failure = error_of(&error);
      fail(failure ? failure->code() : Code::resource_exhausted, "the device of type ", plugin_.type,
           " did not allocate ", bytes, " bytes: ", failure ? failure->message() : "it gave no reason");
    }
  }
  void* memory = block->memory;
  Block* owner = block.release();
  return Tensor(dtype, std::move(shape), Buffer::borrow(memory, bytes, owner, Block::release, Buffer::Kind::device),
                memory);
}

void PluginMemory::upload(Tensor host, Account* account, Arrived arrived) {
  Tensor on_device = allocate(host.dtype(), host.shape(), account);
  if (host.bytes() == 0) return arrived(std::nullopt, std::move(on_device));
  const void* from = host.raw();
  void* to = on_device.raw();
  const uint64_t bytes = host.bytes();
  void* number = Copies::shared().begin([host = std::move(host), on_device = std::move(on_device),
                                         arrived = std::move(arrived)](std::optional<Error> error) mutable {
    host = Tensor();  // freed before the step hears of the end
    arrived(error, error ? Tensor() : std::move(on_device));
  });
  plugin_.table->copy_to_device(handle_, from, to, bytes, &Copies::done, number);
}

void PluginMemory::download(Tensor on_device, Account* account, Arrived arrived) {
  AccountScope scope(account);
  const PluginMemory& device = device_of(on_device);
  Tensor host(on_device.dtype(), on_device.shape());
  if (on_device.bytes() == 0) return arrived(std::nullopt, std::move(host));
  const void* from = on_device.raw();
  void* to = host.raw();
  const uint64_t bytes = host.bytes();
  void* number = Copies::shared().begin([host = std::move(host), on_device = std::move(on_device),
                                         arrived = std::move(arrived)](std::optional<Error> error) mutable {
    on_device = Tensor();
    arrived(error, error ? Tensor() : std::move(host));
  });
  device.plugin_.table->copy_to_host(device.handle_, from, to, bytes, &Copies::done, number);
}

DeviceMemory::Arrived cancellable(Step& step, DeviceMemory::Arrived arrived) {
  struct Once {
    std::atomic<bool> reported{false};
    std::atomic<int64_t> token{-1};
    DeviceMemory::Arrived arrived;
  };
  auto once = std::make_shared<Once>();
  once->arrived = std::move(arrived);
  auto finish = [once, &step](std::optional<Error> error, Tensor value) {
    if (once->reported.exchange(true)) return;
    // The step lives until `arrived` has been called.
    step.cancellation().remove(once->token);
    std::exchange(once->arrived, nullptr)(std::move(error), std::move(value));
  };
  const Error cancelled(Code::cancelled, "the step ended during a copy between devices");
  once->token = step.cancellation().add([finish, cancelled] { finish(cancelled, Tensor()); });
  if (once->token < 0) finish(cancelled, Tensor());
  return finish;
}

void deliver(Tensor value, Device& device, bool to_host, DeviceMemory::Arrived arrived) {
  // An error thrown at once is reported like a later one.
  auto guarded = [](const DeviceMemory::Arrived& report, const auto& body) {
    try {
      body();
    } catch (const Error& error) {
      report(error, Tensor());
    }
  };
  to_host = to_host || !device.memory;
  if (!value.defined() || (value.on_device() ? !to_host && &device_of(value) == device.memory.get() : to_host))
    return arrived(std::nullopt, std::move(value));
  if (to_host) return guarded(arrived, [&] { PluginMemory::download(std::move(value), device.account, arrived); });
  if (!value.on_device())
    return guarded(arrived, [&] { device.memory->upload(std::move(value), device.account, arrived); });
  guarded(arrived, [&] {
    // By way of the host. The session may be gone before the first copy ends, if the step is cancelled.
    PluginMemory::download(
        std::move(value), nullptr,
        [memory = device.memory, account = device.account, arrived, guarded](std::optional<Error> error, Tensor host) {
          if (error) return arrived(std::move(error), Tensor());
          guarded(arrived, [&] { memory->upload(std::move(host), account, arrived); });
        });
  });
}

namespace {

struct Open {
  std::mutex mutex;
  std::condition_variable closed;
  int closing = 0;
  std::map<std::pair<const Plugin*, int>, std::weak_ptr<PluginMemory>> devices;
};

Open& opened() {
  static Open* o = new Open;
  return *o;
}

}  // namespace

std::shared_ptr<PluginMemory> PluginMemory::open(const Plugin& plugin, int index) {
  std::unique_lock lock(opened().mutex);
  std::weak_ptr<PluginMemory>& known = opened().devices[{&plugin, index}];
  std::shared_ptr<PluginMemory> device = known.lock();
  if (device) return device;
  // A device that is being closed must be closed before it can be opened again.
  opened().closed.wait(lock, [] { return opened().closing == 0; });
  device = known.lock();
  if (!device) known = device = std::shared_ptr<PluginMemory>(new PluginMemory(plugin, index), close);
  return device;
}

// The last reference may go on a thread of the plug-in's, which closing may have to wait for.
void PluginMemory::close(PluginMemory* memory) {
  {
    std::lock_guard lock(opened().mutex);
    ++opened().closing;
  }
  ThreadPool::shared().submit([memory] {
    delete memory;
    std::lock_guard lock(opened().mutex);
    --opened().closing;
    opened().closed.notify_all();
  });
}

}  // namespace thalweg
