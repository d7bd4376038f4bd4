// Calls of collective operations: starting, counting, cancelling and watching them. Groups are in collective_groups.cc,
// messages between members in collective_messages.cc.
#include "net/collectives.h"

#include <algorithm>

#include "net/collective_pending.h"
#include "thread/thread_pool.h"

namespace thalweg::net {
namespace {

std::mutex default_mutex;
std::weak_ptr<Collectives> default_collectives;

// The member of a group with a declared size is the process, whichever device its nodes are on.
constexpr char kProcess[] = "device:PROCESS:0";

}  // namespace

void Collectives::set_default(std::weak_ptr<Collectives> chosen) {
  std::lock_guard lock(default_mutex);
  default_collectives = std::move(chosen);
}

std::shared_ptr<Collectives> Collectives::get_default() {
  std::lock_guard lock(default_mutex);
  return default_collectives.lock();
}

void Collectives::set_join(Join join, Report report) {
  std::lock_guard lock(mutex_);
  join_ = std::move(join);
  report_ = std::move(report);
}

std::string Collectives::local_name(const std::string& device) const {
  const size_t at = device.find("/device:");
  return at == std::string::npos ? device : device.substr(at + 1);
}

uint64_t Collectives::runs_ended(int64_t group) {
  std::lock_guard lock(mutex_);
  const auto& local = groups_[group].local;
  if (local.empty()) return 0;
  auto behind = [](const auto& a, const auto& b) { return a.second.ended_well < b.second.ended_well; };
  return std::min_element(local.begin(), local.end(), behind)->second.ended_well;
}

std::set<std::string> Collectives::awaited(int64_t group) {
  std::set<std::string> tasks;
  std::lock_guard lock(mutex_);
  const Group& found = groups_[group];
  for (const auto& [own, member] : found.local)
    for (const auto& [key, active] : member.runs)
      for (int rank : active.run->missing()) tasks.insert(found.formed->members[rank].task);
  return tasks;
}

std::shared_ptr<Collectives::Pending> Collectives::start(CollectiveCall call, CollectiveDone done) {
  auto pending = std::make_shared<Pending>();
  pending->call = std::move(call);
  pending->done = std::move(done);
  pending->call.device = pending->call.size == 0 ? kProcess : local_name(pending->call.device);
  if (pending->call.timeout > 0) {
    const auto wait = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(pending->call.timeout));
    Timers::shared().at(Clock::now() + wait, [weak = weak_from_this(), late = std::weak_ptr(pending)] {
      auto self = weak.lock();
      auto call = late.lock();
      if (!self || !call || call->is_ended) return;
      self->cancel(call, Error(Code::deadline_exceeded,
                               cat("a collective operation of group ", call->call.group,
                                   " took longer than its timeout of ", call->call.timeout, " s (timeout_seconds)")));
    });
  }
  enqueue(pending);
  return pending;
}

void Collectives::enqueue(const std::shared_ptr<Pending>& pending) {
  const CollectiveCall& call = pending->call;
  bool formed, joins = false;
  int64_t size = 0;
  std::optional<Error> failed;
  {
    std::lock_guard lock(mutex_);
    Group& group = groups_[call.group];
    size = call.size != 0 ? call.size : group.declared_size;
    formed = group.formed != nullptr;
    if (closed_) {
      failed = closed_;
    } else if (size <= 0) {
      failed = Error(Code::failed_precondition,
                     cat("collective group ", call.group, " has no size: initialize it first (hvd.init())"));
    } else if (!formed && !group.left.empty()) {
      failed = group.left.begin()->second;
    } else if (!formed && group.reason) {
      failed = reason_of(group);
    } else if (!formed) {
      group.waiting.push_back(pending);
      joins = group.joining.emplace(call.device, size).second;
    }
  }
  if (failed)
    pending->finish(failed, Tensor());
  else if (joins)
    join(call.group, size, call.device);
  else if (formed)
    begin(pending);
}

std::optional<Error> Collectives::reason_of(Group& group) {
  std::optional<Error> reason = group.reason;
  if (reason->code() != Code::unavailable)
    group.reason.reset();
  else if (++group.reasons_told > kMostReasons)
    reason = Error(Code::failed_precondition, cat(reason->message(), "; call hvd.reinit() to go on without it"));
  return reason;
}

std::shared_ptr<CollectiveRun> Collectives::run_of(int64_t number, Group& group, int rank, const NumberedKey& key) {
  LocalMember& member = group.local.at(rank);
  if (auto found = member.runs.find(key); found != member.runs.end()) return found->second.run;
  auto generation = group.formed;
  auto send = [weak = weak_from_this(), number, generation, rank, key](int destination, CollectiveRun::Phase phase,
                                                                       int origin, const CollectiveHeader* header,
                                                                       Tensor value) {
    if (auto self = weak.lock())
      self->send(number, generation, rank, key, destination, phase, origin, header, std::move(value));
  };
  auto run = std::make_shared<CollectiveRun>(rank, generation->layout, std::move(send));
  member.runs[key] = {run, Clock::now(), false, {}};
  return run;
}

void Collectives::begin(const std::shared_ptr<Pending>& pending) {
  const CollectiveCall& call = pending->call;
  if (pending->is_ended) return;
  std::shared_ptr<CollectiveRun> run;
  std::optional<Error> failed;
  bool again = false, breaks = false, some_left = false;
  uint64_t generation = 0;
  int rank = -1;
  NumberedKey key{{call.instance, call.at.frame, call.at.iteration}, 0};
  {
    std::lock_guard lock(mutex_);
    Group& group = groups_[call.group];
    if (!group.formed) {
      again = !closed_.has_value();  // broken meanwhile
      failed = closed_;
    } else {
      generation = group.formed->number;
      const auto& members = group.formed->members;
      for (const auto& [at, member] : group.local)
        if (members[at].device == call.device) rank = at;
      if (call.size != 0 && static_cast<int64_t>(members.size()) != call.size) {
        failed = Error(Code::invalid_argument,
                       cat("collective group ", call.group, " has ", members.size(), " members, and a node on ", task_,
                           "/", call.device, " expects group_size ", call.size));
        breaks = true;
      } else if (rank < 0) {
        failed = Error(Code::invalid_argument, cat("collective group ", call.group, " has its ", members.size(),
                                                   " members, and ", task_, "/", call.device, " is none of them"));
      } else {
        key.count = group.local[rank].counts[key.key]++;
        run = run_of(call.group, group, rank, key);
        Active& active = group.local[rank].runs[key];
        active.since = Clock::now();
        discharge(active);
        pending->generation = generation;
        pending->run = run;
        some_left = !group.left.empty();
      }
    }
  }
  if (again) return enqueue(pending);
  if (failed) {
    if (breaks) break_up(call.group, generation, *failed, true);
    return pending->finish(failed, Tensor());
  }
  auto done = [weak = weak_from_this(), pending, generation, rank, key](std::optional<Error> error, Tensor value) {
    if (auto self = weak.lock()) self->ended(pending->call.group, generation, rank, key, !error);
    pending->finish(std::move(error), std::move(value));
  };
  try {
    run->start(call, done);
  } catch (const Error& error) {
    break_up(call.group, generation, error, true);
    pending->finish(error, Tensor());
  }
  if (some_left) check_left(call.group);
}

void Collectives::ended(int64_t number, uint64_t generation, int rank, const NumberedKey& key, bool well) {
  Active gone;
  std::lock_guard lock(mutex_);
  Group& group = groups_[number];
  if (!group.formed || group.formed->number != generation) return;
  auto& runs = group.local[rank].runs;
  const auto found = runs.find(key);
  if (found == runs.end()) return;
  if (well) ++group.local[rank].ended_well;
  gone = std::move(found->second);
  runs.erase(found);
}

void Collectives::cancel(const std::shared_ptr<Pending>& pending, const Error& error) {
  uint64_t generation;
  std::shared_ptr<CollectiveRun> run;
  {
    std::lock_guard lock(mutex_);
    std::erase(groups_[pending->call.group].waiting, pending);
    generation = pending->generation;
    run = pending->run.lock();
  }
  if (pending->is_ended) return;
  // Also of a run whose messages have all arrived: the step that the output belongs to may end when the call has.
  auto end_call = [&] {
    if (run) run->fail_now(error);
    pending->finish(error, Tensor());
  };
  // The group first: when the call has ended, the next one must not begin in this generation.
  if (generation != 0)
    break_up(pending->call.group, generation,
             Error(Code::aborted, cat("a collective operation of group ", pending->call.group, " was ended on ", task_,
                                      "/", pending->call.device, ": ", error.message())),
             true, end_call);
  end_call();
}

void Collectives::watch(Clock::time_point now) {
  std::vector<std::string> texts;
  Report report;
  {
    std::lock_guard lock(mutex_);
    report = report_;
    for (auto& [number, group] : groups_)
      for (auto& [rank, member] : group.local)
        for (auto& [key, active] : member.runs) {
          if (active.reported || now - active.since < kStall || !active.run->is_started()) continue;
          active.reported = true;
          std::string missing;
          for (int each : active.run->missing())
            missing += cat(missing.empty() ? "" : ", ", group.formed->members[each].task, " (rank ", each, ")");
          texts.push_back(cat("Instance ", key.key.instance, " of collective group ", number, " has waited for ",
                              kStall.count(), " s on ", task_, ", for ", missing));
        }
  }
  if (report)
    for (const std::string& text : texts) report(text);
}

void Collectives::close(const Error& why) {
  std::vector<std::shared_ptr<Pending>> waiting;
  std::vector<std::pair<int64_t, uint64_t>> formed;
  {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    closed_ = why;
    for (auto& [number, group] : groups_) {
      waiting.insert(waiting.end(), group.waiting.begin(), group.waiting.end());
      group.waiting.clear();
      if (group.formed) formed.emplace_back(number, group.formed->number);
    }
    early_.clear();
    join_ = nullptr;
    report_ = nullptr;
  }
  for (const auto& [number, generation] : formed) break_up(number, generation, why, false);
  for (const auto& pending : waiting) pending->finish(why, Tensor());
}

}  // namespace thalweg::net
