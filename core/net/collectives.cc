// Groups, counting of runs, and messages between members.
#include "net/collectives.h"

#include <algorithm>
#include <atomic>
#include <tuple>

#include "net/connection.h"
#include "thread/thread_pool.h"

namespace thalweg::net {

struct Collectives::Pending {
  CollectiveCall call;
  CollectiveDone done;
  std::atomic<bool> is_ended{false};
  // Set when the run begins; guarded by the lock of Collectives.
  uint64_t generation = 0;
  std::weak_ptr<CollectiveRun> run;

  void finish(std::optional<Error> error, Tensor value) {
    if (is_ended.exchange(true)) return;
    CollectiveDone tell = std::move(done);
    tell(std::move(error), std::move(value));
  }
};

namespace {

std::mutex default_mutex;
std::weak_ptr<Collectives> default_collectives;

// The member of a group with a declared size is the process, whichever device its nodes are on.
constexpr char kProcess[] = "device:PROCESS:0";

// What a message takes of this process's memory: elements in a peer's shared memory are not copied.
size_t kept_bytes(const Connection& from, const Tensor& value) {
  return value.defined() && !from.shares_memory() ? value.bytes() : 0;
}

// "device:CPU:10" comes after "device:CPU:9".
auto device_order(const std::string& device) {
  const size_t colon = device.rfind(':');
  return std::tuple(device.substr(0, colon), device.size(), device);
}

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

void Collectives::declare(int64_t group, int64_t size) {
  std::lock_guard lock(mutex_);
  groups_[group].declared_size = size;
  groups_[group].left.clear();
  groups_[group].reason.reset();
}

uint64_t Collectives::generation(int64_t group) {
  std::lock_guard lock(mutex_);
  const auto found = groups_.find(group);
  return found == groups_.end() ? 0 : found->second.last;
}

std::vector<CollectiveMember> Collectives::members(int64_t group) {
  std::lock_guard lock(mutex_);
  const auto found = groups_.find(group);
  return found == groups_.end() || !found->second.formed ? std::vector<CollectiveMember>()
                                                         : found->second.formed->members;
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

void Collectives::join(int64_t number, int64_t size, const std::string& device) {
  std::vector<CollectiveMember> members;
  std::vector<std::shared_ptr<Pending>> refused;
  uint64_t generation = 0;
  {
    std::lock_guard lock(mutex_);
    if (join_) {
      ThreadPool::shared().submit([ask = join_, number, size, device] { ask(number, size, device); });
      return;
    }
    Group& group = groups_[number];
    for (const auto& [other, expected] : group.joining)
      if (expected != size) refused.swap(group.waiting);
    if (!refused.empty()) group.joining.clear();
    if (refused.empty() && static_cast<int64_t>(group.joining.size()) == size) {
      for (const auto& [joined, expected] : group.joining) members.push_back({task_, joined, 0, nullptr});
      generation = group.last + 1;
    }
  }
  for (const auto& pending : refused)
    pending->finish(Error(Code::invalid_argument, cat("members of collective group ", number,
                                                      " expect different group sizes, this one ", pending->call.size)),
                    Tensor());
  if (members.empty()) return;
  std::sort(members.begin(), members.end(),
            [](const auto& a, const auto& b) { return device_order(a.device) < device_order(b.device); });
  formed(number, generation, std::move(members));
}

void Collectives::formed(int64_t number, uint64_t generation, std::vector<CollectiveMember> members) {
  std::vector<std::shared_ptr<Pending>> waiting;
  decltype(early_) early;
  std::shared_ptr<Connection> gone;
  {
    std::lock_guard lock(mutex_);
    Group& group = groups_[number];
    if (generation <= group.last || closed_) return;
    group.last = generation;
    group.joining.clear();
    for (auto& [rank, member] : group.local) discharge(member);
    group.local.clear();
    group.left.clear();
    group.broken.reset();
    group.reason.reset();
    if (group.declared_size != 0) group.declared_size = static_cast<int64_t>(members.size());
    for (size_t rank = 0; rank < members.size(); ++rank) {
      if (!members[rank].peer)
        group.local[static_cast<int>(rank)];
      else if (members[rank].peer->is_lost())
        gone = members[rank].peer;
    }
    group.formed = std::make_shared<const Generation>(Generation{generation, std::move(members)});
    waiting.swap(group.waiting);
    auto known = std::partition(early_.begin(), early_.end(), [&](const auto& each) {
      return each.second.group != number || each.second.generation > generation;
    });
    early.assign(std::make_move_iterator(known), std::make_move_iterator(early_.end()));
    early_.erase(known, early_.end());
    for (const auto& [from, message] : early)
      if (auto connection = from.lock())
        early_messages_.discharge(connection->number(), kept_bytes(*connection, message.value));
  }
  for (const auto& pending : waiting) begin(pending);
  for (auto& [from, message] : early) {
    auto connection = from.lock();
    if (!connection) continue;
    try {
      deliver(connection, std::move(message));
    } catch (const Error& error) {
      connection->close(error);
    }
  }
  // Lost between the agreement and this moment.
  if (gone) lost(gone, Error(Code::unavailable, "its connection was lost"));
}

void Collectives::refused(int64_t number, const std::string& device, const Error& error) {
  std::vector<std::shared_ptr<Pending>> failed;
  {
    std::lock_guard lock(mutex_);
    Group& group = groups_[number];
    group.joining.erase(device);
    const auto others = std::partition(group.waiting.begin(), group.waiting.end(),
                                       [&](const auto& each) { return each->call.device != device; });
    failed.assign(others, group.waiting.end());
    group.waiting.erase(others, group.waiting.end());
  }
  for (const auto& pending : failed) pending->finish(error, Tensor());
}

std::shared_ptr<CollectiveRun> Collectives::run_of(int64_t number, Group& group, int rank, const NumberedKey& key) {
  LocalMember& member = group.local.at(rank);
  if (auto found = member.runs.find(key); found != member.runs.end()) return found->second.run;
  auto generation = group.formed;
  auto send = [weak = weak_from_this(), number, generation, rank, key](int destination, CollectiveRun::Phase phase,
                                                                       const CollectiveHeader* header, Tensor value) {
    if (auto self = weak.lock())
      self->send(number, generation, rank, key, destination, phase, header, std::move(value));
  };
  auto run = std::make_shared<CollectiveRun>(rank, static_cast<int>(generation->members.size()), std::move(send));
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

void Collectives::discharge(Active& active) {
  for (auto [peer, bytes] : active.early) early_messages_.discharge(peer, bytes);
  active.early.clear();
}

void Collectives::discharge(LocalMember& member) {
  for (auto& [key, active] : member.runs) discharge(active);
}

void Collectives::left(int64_t number, const std::string& task, uint64_t incarnation, const Error& error) {
  std::vector<std::shared_ptr<Pending>> failed;
  {
    std::lock_guard lock(mutex_);
    Group& group = groups_[number];
    group.left.try_emplace({task, incarnation}, error);
    failed.swap(group.waiting);
  }
  for (const auto& pending : failed) pending->finish(error, Tensor());
  check_left(number);
}

void Collectives::check_left(int64_t number) {
  std::optional<Error> error;
  uint64_t generation = 0;
  {
    std::lock_guard lock(mutex_);
    const Group& group = groups_[number];
    if (!group.formed) return;
    generation = group.formed->number;
    const auto& members = group.formed->members;
    for (size_t rank = 0; rank < members.size(); ++rank) {
      const auto found = group.left.find({members[rank].task, members[rank].incarnation});
      if (found == group.left.end()) continue;
      for (const auto& [own, member] : group.local)
        for (const auto& [key, active] : member.runs)
          if (active.run->needs(static_cast<int>(rank))) error = found->second;
    }
  }
  if (error) break_up(number, generation, *error, true);
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

void Collectives::send(int64_t group, const std::shared_ptr<const Generation>& generation, int source,
                       const NumberedKey& key, int destination, CollectiveRun::Phase phase,
                       const CollectiveHeader* header, Tensor value) {
  const CollectiveMember& member = generation->members[destination];
  if (!member.peer) {
    Message message{group, generation->number, key, source, destination, phase, {}, value.owned(), {}};
    if (header != nullptr) message.header = *header;
    return deliver(nullptr, std::move(message));
  }
  Frame frame{
      FrameKind::collective, static_cast<uint8_t>(phase), generation->number, static_cast<uint64_t>(group), {}, {}};
  Writer writer(frame.body);
  writer.put(key.key.instance).put(key.key.frame).put(key.key.iteration).put(key.count);
  writer.put(static_cast<int32_t>(source)).put(static_cast<int32_t>(destination));
  if (header != nullptr) header->put(writer);
  if (value.defined()) frame.tensors.push_back(std::move(value));
  try {
    member.peer->send(std::move(frame));
  } catch (const Error& error) {
    // A lost peer breaks the group by itself; a tensor that cannot leave its process is the caller's fault.
    if (error.code() != Code::unavailable) break_up(group, generation->number, error, true);
  }
}

void Collectives::received(const std::shared_ptr<Connection>& from, Frame frame) {
  Parser parser(frame.body);
  Message message{};
  message.group = static_cast<int64_t>(frame.number);
  message.generation = frame.step;
  message.phase = static_cast<CollectiveRun::Phase>(frame.flags);
  require(!from->peer().task.empty(), "a client sent a collective frame");
  require(message.phase >= CollectiveRun::Phase::contribution && message.phase <= CollectiveRun::Phase::abort,
          "a collective frame has the unknown phase ", int{frame.flags});
  require(frame.tensors.size() <= 1, "a collective frame has ", frame.tensors.size(), " tensors");
  if (message.phase == CollectiveRun::Phase::abort) {
    message.error = take_error(parser);
    message.source = parser.take<int32_t>();
  } else {
    message.key.key.instance = parser.take<int64_t>();
    message.key.key.frame = parser.take<uint64_t>();
    message.key.key.iteration = parser.take<int64_t>();
    message.key.count = parser.take<uint64_t>();
    message.source = parser.take<int32_t>();
    message.destination = parser.take<int32_t>();
    if (message.phase == CollectiveRun::Phase::contribution) message.header = CollectiveHeader::take(parser);
    if (!frame.tensors.empty()) message.value = std::move(frame.tensors[0]);
  }
  deliver(from, std::move(message));
}

void Collectives::deliver(const std::shared_ptr<Connection>& from, Message message) {
  std::shared_ptr<CollectiveRun> run;
  {
    std::lock_guard lock(mutex_);
    const auto known = groups_.find(message.group);
    Group* group = known == groups_.end() ? nullptr : &known->second;
    if (group == nullptr || message.generation > group->last) {
      early_messages_.charge(from->number(), kept_bytes(*from, message.value));
      early_.emplace_back(from, std::move(message));
      return;
    }
    if (!group->formed || group->formed->number != message.generation) return;  // broken meanwhile
    const auto& members = group->formed->members;
    const int size = static_cast<int>(members.size());
    require(message.source >= 0 && message.source < size, "a collective frame comes from the rank ", message.source);
    if (from) {
      const CollectiveMember& sender = members[message.source];
      require(sender.task == from->peer().task && sender.incarnation == from->peer().incarnation, from->name(),
              " sent a collective frame for ", sender.task);
    }
    if (message.phase != CollectiveRun::Phase::abort) {
      require(message.destination >= 0 && message.destination < size && group->local.contains(message.destination),
              "a collective frame is for the rank ", message.destination, ", which is not here");
      LocalMember& member = group->local[message.destination];
      const auto counted = member.counts.find(message.key.key);
      const bool over =
          counted != member.counts.end() && message.key.count < counted->second && !member.runs.contains(message.key);
      if (over) return;
      const bool is_early = counted == member.counts.end() || message.key.count >= counted->second;
      const size_t bytes = from && is_early ? kept_bytes(*from, message.value) : 0;
      if (from && is_early) early_messages_.charge(from->number(), bytes);
      run = run_of(message.group, *group, message.destination, message.key);
      if (from && is_early) member.runs.at(message.key).early.emplace_back(from->number(), bytes);
    }
  }
  if (message.phase == CollectiveRun::Phase::abort)
    break_up(message.group, message.generation, *message.error, false);
  else if (message.phase == CollectiveRun::Phase::contribution)
    run->contributed(message.source, std::move(message.header), std::move(message.value));
  else
    run->resulted(message.source, std::move(message.value));
}

void Collectives::break_up(int64_t number, uint64_t generation, const Error& error, bool tells_peers,
                           const std::function<void()>& before_runs_end) {
  std::map<int, LocalMember> local;
  std::shared_ptr<const Generation> broken;
  {
    std::lock_guard lock(mutex_);
    Group& group = groups_[number];
    if (!group.formed || group.formed->number != generation) return;
    broken.swap(group.formed);
    local.swap(group.local);
    for (auto& [rank, member] : local) discharge(member);
    group.broken = broken;
    group.reasons_told = 0;
    bool runs = false;
    for (const auto& [rank, member] : local)
      for (const auto& [key, active] : member.runs) runs = runs || active.run->is_started();
    const bool disagrees = error.code() == Code::invalid_argument && !tells_peers && !runs;
    const bool is_lost = error.code() == Code::unavailable && group.declared_size != 0;
    if (disagrees || is_lost) group.reason = error;
  }
  if (tells_peers && !local.empty()) {
    std::set<Connection*> told;
    for (const CollectiveMember& member : broken->members) {
      if (!member.peer || !told.insert(member.peer.get()).second) continue;
      Frame frame{FrameKind::collective,
                  static_cast<uint8_t>(CollectiveRun::Phase::abort),
                  generation,
                  static_cast<uint64_t>(number),
                  {},
                  {}};
      Writer writer(frame.body);
      put_error(writer, error);
      writer.put(static_cast<int32_t>(local.begin()->first));
      try {
        member.peer->send(std::move(frame));
      } catch (const Error&) {
        // A lost peer has nothing to end.
      }
    }
  }
  if (before_runs_end) before_runs_end();
  for (auto& [rank, member] : local)
    for (auto& [key, active] : member.runs) active.run->fail(error);
}

void Collectives::dissolve(int64_t number, uint64_t generation, const Error& error) {
  break_up(number, generation, error, true);
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

void Collectives::lost(const std::shared_ptr<Connection>& peer, const Error& why) {
  std::vector<std::tuple<int64_t, uint64_t, int>> broken;
  std::vector<std::pair<std::shared_ptr<Pending>, Error>> failed;
  auto error_of = [&](int64_t number, int64_t rank) {
    return Error(Code::unavailable, cat("collective group ", number, " has lost its member of rank ", rank, ", task '",
                                        peer->peer().task, "': ", why.message()));
  };
  {
    std::lock_guard lock(mutex_);
    for (auto& [number, group] : groups_) {
      const auto& generation = group.formed ? group.formed : group.broken;
      if (!generation || (!group.formed && group.declared_size == 0)) continue;
      const auto& members = generation->members;
      const auto found =
          std::find_if(members.begin(), members.end(), [&](const auto& member) { return member.peer == peer; });
      if (found == members.end() || group.left.contains({found->task, found->incarnation})) continue;
      if (group.formed) {
        broken.emplace_back(number, group.formed->number, static_cast<int>(found - members.begin()));
      } else if (!group.reason) {
        // It is being formed anew, by all of its members.
        group.reason = error_of(number, found - members.begin());
        for (const auto& pending : group.waiting) failed.emplace_back(pending, *group.reason);
        group.waiting.clear();
      }
    }
    std::erase_if(early_, [&](const auto& each) { return each.first.lock() == peer; });
    early_messages_.forget(peer->number());
  }
  for (const auto& [number, generation, rank] : broken) break_up(number, generation, error_of(number, rank), true);
  for (const auto& [pending, error] : failed) pending->finish(error, Tensor());
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
