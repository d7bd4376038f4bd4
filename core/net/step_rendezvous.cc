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

void StepRendezvous::send(const Key& key, FrameIteration at, Tensor value) {
  // A partial run's fetches have no destination: they stay here, too.
  if (key.destination().empty() || is_of_task(key.destination(), task_)) return local_.send(key, at, std::move(value));
  if (!routes_) fail(Code::internal, "this step has no routes to other tasks");
  Frame frame{FrameKind::tensor, 0, static_cast<uint64_t>(step()), key.hash(), {}, {}};
  Writer(frame.body).put(at.frame).put(at.iteration);
  frame.tensors.push_back(std::move(value));
  routes_->to(key.destination())->send(std::move(frame));
}

}  // namespace thalweg::net
