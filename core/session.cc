// Compiling plans and keeping track of running steps.
#include "session.h"

#include "kernel/registry.h"
#include "memory/allocator.h"
#include "plugin/plugin_memory.h"

namespace thalweg {

Session::Session(const std::vector<std::string>& device_names) : devices_(make_devices(device_names)) {}

Session::Devices Session::make_devices(const std::vector<std::string>& names, uint64_t incarnation) {
  require(!names.empty(), "a session needs a device");
  Devices devices;
  auto family = std::make_shared<DeviceFamily>();
  for (const std::string& name : names) {
    const size_t at = name.find("/device:");
    require(at != std::string::npos, "'", name, "' is not the full name of a device");
    const std::string local = name.substr(at + 8);
    const size_t colon = local.find(':');
    const std::string type = local.substr(0, colon);
    auto device =
        incarnation == 0 ? std::make_shared<Device>(name, type) : std::make_shared<Device>(name, type, incarnation);
    if (const Plugin* plugin = plugin_of(device->type)) {
      require(colon != std::string::npos, "'", name, "' has no index");
      device->memory = PluginMemory::open(*plugin, std::stoi(local.substr(colon + 1)));
      device->account->set_limit(device->memory->memory_bytes());
    }
    device->family = family;
    devices.push_back(std::move(device));
  }
  return devices;
}

const std::shared_ptr<Device>& Session::device(const std::string& name) const {
  if (name.empty()) return devices_[0];
  for (const auto& device : devices_)
    if (device->name == name) return device;
  fail(Code::invalid_argument, "this session has no device '", name, "'");
}

Session::~Session() {
  try {
    cancel_steps();
  } catch (const std::bad_alloc&) {
    // Its steps hold the session, so that none of them runs any more.
  }
  // Resources on a server's devices may go on calling the functions that they were made with.
  if (!owns_devices_) return;
  // Functions refer to each other and to the device, resources of the device to functions. Resources go first: the
  // iterators of datasets call functions in the background, and when they end.
  for (auto& device : devices_) device->resources.clear("");
  for (auto& [name, function] : functions_) function->forget();
}

std::shared_ptr<Kernel> Session::kernel_of(const NodeSpec& spec, Device& device) {
  if (!spec.stateful) return Registry::global().create(spec.def, device);
  std::string key = spec.def.op + ":" + spec.def.name;
  if (&device != devices_[0].get()) key += "@" + device.name;
  {
    std::lock_guard lock(mutex_);
    auto found = stateful_.find(key);
    if (found != stateful_.end()) return found->second.of(spec.def);
  }
  std::shared_ptr<Kernel> made = Registry::global().create(spec.def, device);
  std::lock_guard lock(mutex_);
  return stateful_.emplace(key, StatefulKernel{std::move(made), spec.def.input_dtypes, spec.def.output_dtypes})
      .first->second.of(spec.def);
}

const std::shared_ptr<Kernel>& Session::StatefulKernel::of(const NodeDef& def) const {
  if (def.input_dtypes != input_dtypes || def.output_dtypes != output_dtypes)
    fail(Code::invalid_argument, "node '", def.name, "' (op ", def.op,
         ") has other element types than the node of that name in an earlier step of the session");
  return kernel;
}

std::shared_ptr<Plan> Session::compile(std::vector<NodeSpec> specs, int num_feeds, Fetches fetches, Device& device) {
  return std::make_shared<Plan>(std::move(specs), num_feeds, std::move(fetches), kernel_maker(device), device, limit_);
}

std::shared_ptr<Function> Session::function(const std::string& name) {
  std::lock_guard lock(mutex_);
  auto found = functions_.find(name);
  return found == functions_.end() ? nullptr : found->second;
}

std::shared_ptr<Function> Session::declare(std::shared_ptr<Function> function) {
  std::lock_guard lock(mutex_);
  auto [found, added] = functions_.emplace(function->name(), std::move(function));
  if (!added) fail(Code::already_exists, "function '", found->first, "' is declared already");
  return found->second;
}

void Session::define(Function& function, std::vector<NodeSpec> specs, Fetches results, const std::string& device) {
  int num_feeds = static_cast<int>(function.arguments().size());
  const std::shared_ptr<Device>& where = this->device(device);
  function.define(where, compile(std::move(specs), num_feeds, std::move(results), *where));
}

void Session::drop(const std::string& name) {
  std::shared_ptr<Function> gone;
  std::lock_guard lock(mutex_);
  auto found = functions_.find(name);
  if (found == functions_.end()) return;
  gone = std::move(found->second);
  gone->forget();
  functions_.erase(found);
}

Session::Running::Running(Session& session, Step* step) : session_(session), step_(step) {
  std::lock_guard lock(session.mutex_);
  if (session.closed_) fail(Code::cancelled, "the session has been closed");
  after_ = session.running_;
  if (after_ != nullptr) after_->before_ = this;
  session.running_ = this;
  session.steps_.begin();
}

Session::Running::~Running() {
  std::lock_guard lock(session_.mutex_);
  (before_ != nullptr ? before_->after_ : session_.running_) = after_;
  if (after_ != nullptr) after_->before_ = before_;
  session_.steps_.end();
}

void Session::cancel_steps() {
  // Aborting under the lock keeps each step alive meanwhile: its guard needs the lock to unregister it.
  std::lock_guard lock(mutex_);
  closed_ = true;
  for (Running* each = running_; each != nullptr; each = each->after_)
    each->step_->abort(Error(Code::cancelled, "the session was closed while this step was running"));
}

void Session::close() {
  cancel_steps();
  Allocator::cpu().trim();
}

bool Session::closed() {
  std::lock_guard lock(mutex_);
  return closed_;
}

}  // namespace thalweg
