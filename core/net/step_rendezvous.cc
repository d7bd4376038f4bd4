// Sending tensors to other tasks.
#include "net/step_rendezvous.h"

#include "net/connection.h"
#include "net/encoding.h"

namespace thalweg::net {

bool is_of_task(std::string_view device, std::string_view task) {
  return device.size() > task.size() && device.starts_with(task) && device[task.size()] == '/';
}

const std::shared_ptr<Connection>& Routes::to(std::string_view device) const {
  for (const auto& [task, connection] : peers_)
    if (is_of_task(device, task)) return connection;
  fail(Code::internal, "this step sends a tensor to '", device, "', a device of no task that takes part in it");
}

bool Routes::has(const Connection* peer) const {
  for (const auto& [task, connection] : peers_)
    if (connection.get() == peer) return true;
  return false;
}

std::vector<std::shared_ptr<Connection>> Routes::connections() const {
  std::vector<std::shared_ptr<Connection>> found;
  for (const auto& [task, connection] : peers_) found.push_back(connection);
  return found;
}

std::shared_ptr<Connection> Routes::lost() const {
  for (const auto& [task, connection] : peers_)
    if (connection->is_lost()) return connection;
  return nullptr;
}

// A partial run's fetches have no destination: they stay here, too.
bool StepRendezvous::stays_here(const Key& key) const {
  return key.destination().empty() || is_of_task(key.destination(), task_);
}

void StepRendezvous::push(std::span<const Key> keys, FrameIteration at, std::vector<Tensor> values) {
  if (!routes_) fail(Code::internal, "this step has no routes to other tasks");
  Frame frame{FrameKind::tensor, 0, static_cast<uint64_t>(step()), keys[0].hash(), {}, std::move(values)};
  Writer writer(frame.body);
  writer.put(at.frame).put(at.iteration);
  for (const Key& key : keys.subspan(1)) writer.put(key.hash());
  routes_->to(keys[0].destination())->send(std::move(frame));
}

void StepRendezvous::send(const Key& key, FrameIteration at, Tensor value) {
  if (stays_here(key)) return local_.send(key, at, std::move(value));
  std::vector<Tensor> values;
  values.push_back(std::move(value));
  push({&key, 1}, at, std::move(values));
}

void StepRendezvous::send_all(std::span<const Key> keys, FrameIteration at, std::vector<Tensor> values) {
  if (keys.empty()) return;
  if (stays_here(keys[0])) return Rendezvous::send_all(keys, at, std::move(values));
  push(keys, at, std::move(values));
}

}  // namespace thalweg::net
