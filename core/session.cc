// Compiling plans and keeping track of running steps.
#include "session.h"

#include "kernel/registry.h"
#include "tensor/allocator.h"

namespace thalweg {

Session::Session(std::string device_name) : device_(std::make_shared<Device>()) {
  device_->name = std::move(device_name);
  device_->type = "CPU";
}

Session::~Session() {
  cancel_steps();
  // Functions refer to each other and to the device, resources of the device to functions. Resources go first: the
  // iterators of datasets call functions in the background, and when they end.
  device_->resources.clear("");
  for (auto& [name, function] : functions_) function->forget();
}

std::shared_ptr<Kernel> Session::kernel_of(const NodeSpec& spec) {
  if (!spec.stateful) return Registry::global().create(spec.def, *device_);
  std::string key = spec.def.op + ":" + spec.def.name;
  {
    std::lock_guard lock(mutex_);
    auto found = stateful_.find(key);
    if (found != stateful_.end()) return found->second;
  }
  std::shared_ptr<Kernel> made = Registry::global().create(spec.def, *device_);
  std::lock_guard lock(mutex_);
  return stateful_.emplace(key, std::move(made)).first->second;
}

std::shared_ptr<const Plan> Session::compile(std::vector<NodeSpec> specs, int num_feeds,
                                             std::vector<std::pair<int32_t, int32_t>> fetches) {
  return std::make_shared<const Plan>(std::move(specs), num_feeds, std::move(fetches), kernel_maker(), *device_);
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

void Session::define(Function& function, std::vector<NodeSpec> specs,
                     std::vector<std::pair<int32_t, int32_t>> results) {
  int num_feeds = static_cast<int>(function.arguments().size());
  function.define(device_, compile(std::move(specs), num_feeds, std::move(results)));
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
  session.running_.insert(step);
}

Session::Running::~Running() {
  std::lock_guard lock(session_.mutex_);
  session_.running_.erase(step_);
}

void Session::cancel_steps() {
  // Aborting under the lock keeps each step alive meanwhile: its guard cannot leave without it.
  std::lock_guard lock(mutex_);
  closed_ = true;
  for (Step* step : running_) step->abort(Error(Code::cancelled, "the session was closed while this step was running"));
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
