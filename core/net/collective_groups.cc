// Groups of Collectives: how generations are formed, broken up, and left.
#include <algorithm>
#include <tuple>

#include "net/collective_pending.h"
#include "net/connection.h"
#include "thread/thread_pool.h"

namespace thalweg::net {
namespace {

// "device:CPU:10" comes after "device:CPU:9".
auto device_order(const std::string& device) {
  const size_t colon = device.rfind(':');
  return std::tuple(device.substr(0, colon), device.size(), device);
}

}  // namespace

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
      for (const auto& [joined, expected] : group.joining) members.push_back({task_, joined, 0, nullptr, "here"});
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
    std::vector<std::string> hosts;
    for (const CollectiveMember& member : members) hosts.push_back(member.host);
    group.formed = std::make_shared<const Generation>(
        Generation{generation, std::move(members), std::make_shared<const HostLayout>(hosts)});
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

}  // namespace thalweg::net
