// Taking turns for threads.
#include "net/call_queue.h"

namespace thalweg::net {

void CallQueue::add(uint64_t connection, const std::string& host, std::function<void()> work) {
  std::lock_guard lock(mutex_);
  Line& line = lines_[connection];
  line.host = host;
  line.waiting.push_back(std::move(work));
  if (line.waiting.size() == 1) turns_.push_back(connection);
  begin_some();
}

void CallQueue::begin_some() {
  for (auto turn = turns_.begin(); turn != turns_.end() && running_ < shares_.all;) {
    auto line = lines_.find(*turn);
    const auto host = hosts_.find(line->second.host);
    const size_t of_host = host == hosts_.end() ? 0 : host->second;
    if (line->second.running >= shares_.of_connection || of_host >= shares_.of_host) {
      ++turn;
      continue;
    }
    begin(line);
    // To the end of the queue, if there is more to do.
    auto next = std::next(turn);
    if (line->second.waiting.empty())
      turns_.erase(turn);
    else
      turns_.splice(turns_.end(), turns_, turn);
    turn = next;
  }
}

void CallQueue::begin(Lines::iterator line) {
  std::function<void()> work = std::move(line->second.waiting.front());
  line->second.waiting.pop_front();
  ++line->second.running;
  ++hosts_[line->second.host];
  ++running_;
  pool_.submit([this, connection = line->first, work = std::move(work)] {
    work();
    std::lock_guard lock(mutex_);
    ended(connection);
    begin_some();
  });
}

void CallQueue::ended(uint64_t connection) {
  auto line = lines_.find(connection);
  auto host = hosts_.find(line->second.host);
  if (--host->second == 0) hosts_.erase(host);
  --line->second.running;
  --running_;
  remove_if_empty(line);
}

void CallQueue::remove_if_empty(Lines::iterator line) {
  if (line->second.running == 0 && line->second.waiting.empty()) lines_.erase(line);
}

void CallQueue::forget(uint64_t connection) {
  std::deque<std::function<void()>> dropped;  // Destroyed without the lock: it may keep whoever owns this object.
  std::lock_guard lock(mutex_);
  auto line = lines_.find(connection);
  if (line == lines_.end()) return;
  dropped.swap(line->second.waiting);
  turns_.remove(connection);
  remove_if_empty(line);
}

size_t CallQueue::size() {
  std::lock_guard lock(mutex_);
  size_t found = running_;
  for (const auto& [connection, line] : lines_) found += line.waiting.size();
  return found;
}

}  // namespace thalweg::net
