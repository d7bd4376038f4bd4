// The table of running and of early steps.
#include "net/step_table.h"

#include "net/connection.h"

namespace thalweg::net {

std::shared_ptr<StepRendezvous> StepTable::begin(int64_t id, std::shared_ptr<Run> run,
                                                 std::shared_ptr<const Routes> routes) {
  std::lock_guard lock(mutex_);
  if (failed_.contains(id)) fail(Code::aborted, "step ", id, " was cancelled before it started on '", task_, "'");
  Entry& entry = entries_[id];
  if (entry.run) fail(Code::already_exists, "step ", id, " is running on '", task_, "' already");
  if (entry.rendezvous) {
    --early_steps_;
    early_bytes_ -= entry.early_bytes;
  } else {
    entry.rendezvous = std::make_shared<StepRendezvous>(id, task_);
  }
  entry.run = std::move(run);
  entry.rendezvous->set_routes(std::move(routes));
  return entry.rendezvous;
}

std::shared_ptr<StepRendezvous> StepTable::prepare(int64_t id) {
  std::lock_guard lock(mutex_);
  Entry& entry = entries_[id];
  if (!entry.rendezvous) {
    entry.rendezvous = std::make_shared<StepRendezvous>(id, task_);
    entry.since = Clock::now();
    ++early_steps_;
  }
  return entry.rendezvous;
}

void StepTable::end(int64_t id, bool failed) {
  Entry gone;
  std::lock_guard lock(mutex_);
  if (failed) remember(id);
  auto found = entries_.find(id);
  if (found == entries_.end()) return;
  gone = std::move(found->second);
  entries_.erase(found);
}

void StepTable::remember(int64_t id) {
  if (!failed_.insert(id).second) return;
  failed_order_.push_back(id);
  if (failed_order_.size() <= kRemembered) return;
  failed_.erase(failed_order_.front());
  failed_order_.pop_front();
}

void StepTable::deliver(const std::shared_ptr<Connection>& from, int64_t id, uint64_t key, FrameIteration at,
                        Tensor value) {
  std::shared_ptr<StepRendezvous> rendezvous;
  {
    std::lock_guard lock(mutex_);
    if (failed_.contains(id)) return;
    Entry& entry = entries_[id];
    if (!entry.rendezvous) {
      if (early_steps_ >= kMostEarlySteps) {
        entries_.erase(id);
        fail(Code::resource_exhausted, "tensors have arrived for ", early_steps_, " steps that have not been started");
      }
      entry.rendezvous = std::make_shared<StepRendezvous>(id, task_);
      entry.from = from;
      entry.since = Clock::now();
      ++early_steps_;
    }
    if (!entry.run) {
      const size_t bytes = value.defined() ? value.bytes() : 0;
      if (early_bytes_ + bytes > kMostEarlyBytes)
        fail(Code::resource_exhausted, "tensors of ", early_bytes_,
             " bytes have arrived for steps that have not been started");
      entry.early_bytes += bytes;
      early_bytes_ += bytes;
    }
    rendezvous = entry.rendezvous;
  }
  try {
    rendezvous->deliver(key, at, std::move(value));
  } catch (const Error&) {
    // The step has failed meanwhile.
  }
}

void StepTable::cancel(int64_t id, const Error& error) {
  std::shared_ptr<Run> run;
  Entry gone;
  {
    std::lock_guard lock(mutex_);
    auto found = entries_.find(id);
    if (found != entries_.end() && found->second.run) {
      run = found->second.run;
    } else {
      remember(id);
      if (found != entries_.end()) {
        --early_steps_;
        early_bytes_ -= found->second.early_bytes;
        gone = std::move(found->second);
        entries_.erase(found);
      }
    }
  }
  if (run) run->abort(error);
}

std::shared_ptr<Run> StepTable::find(int64_t id) {
  std::lock_guard lock(mutex_);
  auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : found->second.run;
}

std::vector<std::shared_ptr<Run>> StepTable::runs() {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Run>> found;
  for (const auto& [id, entry] : entries_)
    if (entry.run) found.push_back(entry.run);
  return found;
}

void StepTable::forget(const std::shared_ptr<Connection>& from) {
  std::vector<Entry> gone;
  std::lock_guard lock(mutex_);
  for (auto at = entries_.begin(); at != entries_.end();) {
    if (at->second.run || at->second.from.lock() != from) {
      ++at;
      continue;
    }
    --early_steps_;
    early_bytes_ -= at->second.early_bytes;
    gone.push_back(std::move(at->second));
    at = entries_.erase(at);
  }
}

void StepTable::expire(Clock::time_point now) {
  std::vector<Entry> gone;
  std::lock_guard lock(mutex_);
  for (auto at = entries_.begin(); at != entries_.end();) {
    if (at->second.run || now - at->second.since < kPatience) {
      ++at;
      continue;
    }
    --early_steps_;
    early_bytes_ -= at->second.early_bytes;
    remember(at->first);
    gone.push_back(std::move(at->second));
    at = entries_.erase(at);
  }
}

size_t StepTable::size() {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace thalweg::net
