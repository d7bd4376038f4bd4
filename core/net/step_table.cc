// The table of running and of early steps.
#include "net/step_table.h"

#include <algorithm>
#include <functional>

#include "net/connection.h"
#include "resource/tensor_list.h"

namespace thalweg::net {
namespace {

// What a tensor that is kept takes at least: its place in the rendezvous, its shape and its buffer.
constexpr size_t kPlace = 256;

size_t size_in_memory(const Tensor& value) {
  if (!value.defined()) return kPlace;
  size_t bytes = kPlace + value.bytes();
  if (value.dtype() == DType::string)
    for (int64_t i = 0; i < value.num_elements(); ++i) bytes += value.strings()[i].size();
  if (value.dtype() == DType::variant)
    for (int64_t i = 0; i < value.num_elements(); ++i)
      if (auto* list = dynamic_cast<TensorList*>(value.flat<ResourceHandle>()[i].resource.get()))
        for (const Tensor& element : list->stored()) bytes += size_in_memory(element);
  return bytes;
}

uint64_t number_of(const std::shared_ptr<Connection>& connection) { return connection ? connection->number() : 0; }

}  // namespace

std::shared_ptr<StepRendezvous> StepTable::begin(int64_t id, std::shared_ptr<Run> run,
                                                 std::shared_ptr<const Routes> routes) {
  std::lock_guard lock(mutex_);
  if (failed_.contains(id))
    fail(Code::aborted, "step ", id, " was cancelled, or lost a sender of its tensors, before it started on '", task_,
         "'");
  Entry& entry = entries_[id];
  if (entry.run) fail(Code::already_exists, "step ", id, " is running on '", task_, "' already");
  discharge(entry);
  if (!entry.rendezvous) entry.rendezvous = std::make_shared<StepRendezvous>(id, task_);
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

void StepTable::charge(Entry& entry, uint64_t number, size_t bytes) {
  Sender& sender = senders_[number];
  auto known = std::find_if(entry.early.begin(), entry.early.end(), [&](auto& each) { return each.first == number; });
  if (known == entry.early.end()) {
    if (sender.steps >= limits_.early_steps)
      fail(Code::resource_exhausted, "tensors have arrived for ", sender.steps, " steps that have not been started");
    ++sender.steps;
    entry.early.emplace_back(number, 0);
    known = std::prev(entry.early.end());
  }
  if (bytes > limits_.early_bytes || sender.bytes > limits_.early_bytes - bytes)
    fail(Code::resource_exhausted, "tensors of ", sender.bytes,
         " bytes have arrived for steps that have not been started");
  known->second += bytes;
  sender.bytes += bytes;
}

void StepTable::discharge(Entry& entry) {
  for (auto [number, bytes] : entry.early) {
    auto sender = senders_.find(number);
    sender->second.bytes -= bytes;
    if (--sender->second.steps == 0) senders_.erase(sender);
  }
  entry.early.clear();
}

LocalRendezvous::Hold StepTable::hold(uint64_t sender, size_t bytes) {
  std::lock_guard lock(untaken_->mutex);
  size_t& waiting = untaken_->bytes[sender];
  if (bytes > limits_.step_bytes || waiting > limits_.step_bytes - bytes)
    fail(Code::resource_exhausted, "tensors of ", waiting, " bytes have arrived that no step has taken");
  waiting += bytes;
  return LocalRendezvous::Hold(nullptr, [untaken = untaken_, sender, bytes](void*) {
    std::lock_guard gone(untaken->mutex);
    auto found = untaken->bytes.find(sender);
    if ((found->second -= bytes) == 0) untaken->bytes.erase(found);
  });
}

StepTable::Entries::iterator StepTable::drop(Entries::iterator at, std::vector<Entry>& dropped) {
  discharge(at->second);
  remember(at->first);
  dropped.push_back(std::move(at->second));
  return entries_.erase(at);
}

void StepTable::deliver(const std::shared_ptr<Connection>& from, int64_t id, uint64_t key, FrameIteration at,
                        Tensor value) {
  std::shared_ptr<StepRendezvous> rendezvous;
  {
    std::lock_guard lock(mutex_);
    if (failed_.contains(id)) return;
    Entry& entry = entries_[id];
    if (!entry.rendezvous) {
      entry.rendezvous = std::make_shared<StepRendezvous>(id, task_);
      entry.since = Clock::now();
    }
    // A sender that goes beyond its limits loses its connection, and with it all that it has sent ahead.
    if (!entry.run) charge(entry, number_of(from), size_in_memory(value));
    rendezvous = entry.rendezvous;
  }
  std::optional<Error> refused;
  auto held = [&](const Tensor& kept) {
    try {
      return hold(number_of(from), size_in_memory(kept));
    } catch (const Error& error) {
      refused = error;
      throw;
    }
  };
  try {
    rendezvous->deliver(key, at, std::move(value), std::ref(held));
  } catch (const Error&) {
    // The step has failed meanwhile, unless:
    if (refused) throw *refused;
  }
}

void StepTable::cancel(int64_t id, const Error& error, const Connection* from) {
  std::shared_ptr<Run> run;
  std::vector<Entry> dropped;
  {
    std::lock_guard lock(mutex_);
    auto found = entries_.find(id);
    if (found == entries_.end())
      remember(id);
    else if (found->second.run)
      run = found->second.run;
    else
      drop(found, dropped);
  }
  if (run && (from == nullptr || run->is_started_by(from))) run->abort(error);
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
  std::vector<Entry> dropped;
  std::lock_guard lock(mutex_);
  if (!senders_.contains(number_of(from))) return;
  for (auto at = entries_.begin(); at != entries_.end();) {
    const auto& early = at->second.early;
    const bool concerned =
        std::any_of(early.begin(), early.end(), [&](auto& each) { return each.first == number_of(from); });
    at = concerned ? drop(at, dropped) : std::next(at);
  }
}

void StepTable::expire(Clock::time_point now) {
  std::vector<Entry> dropped;
  std::lock_guard lock(mutex_);
  for (auto at = entries_.begin(); at != entries_.end();)
    at = !at->second.run && now - at->second.since >= kPatience ? drop(at, dropped) : std::next(at);
}

size_t StepTable::size() {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace thalweg::net
