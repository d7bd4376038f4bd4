// Messages between the members of collective groups: frames, checks, and what has come too early.
#include "net/collectives.h"
#include "net/connection.h"

namespace thalweg::net {

size_t Collectives::kept_bytes(const Connection& from, const Tensor& value) {
  return value.defined() && !from.shares_memory() ? value.bytes() : 0;
}

void Collectives::discharge(Active& active) {
  for (auto [peer, bytes] : active.early) early_messages_.discharge(peer, bytes);
  active.early.clear();
}

void Collectives::discharge(LocalMember& member) {
  for (auto& [key, active] : member.runs) discharge(active);
}

void Collectives::send(int64_t group, const std::shared_ptr<const Generation>& generation, int source,
                       const NumberedKey& key, int destination, CollectiveRun::Phase phase, int origin,
                       const CollectiveHeader* header, Tensor value) {
  const CollectiveMember& member = generation->members[destination];
  if (!member.peer) {
    Message message{group, generation->number, key, source, destination, origin, phase, {}, value.owned(), {}};
    if (header != nullptr) message.header = *header;
    return deliver(nullptr, std::move(message));
  }
  Frame frame{
      FrameKind::collective, static_cast<uint8_t>(phase), generation->number, static_cast<uint64_t>(group), {}, {}};
  Writer writer(frame.body);
  writer.put(key.key.instance).put(key.key.frame).put(key.key.iteration).put(key.count);
  writer.put(static_cast<int32_t>(source)).put(static_cast<int32_t>(destination));
  writer.put(static_cast<int32_t>(origin));
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
  require(message.phase >= CollectiveRun::Phase::contribution && message.phase <= CollectiveRun::Phase::partial,
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
    message.origin = parser.take<int32_t>();
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
      const bool is_passed_on = message.origin >= 0 && message.origin < size && message.origin != message.destination &&
                                group->formed->layout->sender(message.origin, message.destination) == message.source;
      require(message.origin == message.source || is_passed_on, "a collective frame from the rank ", message.source,
              " has what comes from the rank ", message.origin);
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
  switch (message.phase) {
    case CollectiveRun::Phase::contribution:
      return run->contributed(message.origin, std::move(message.header), std::move(message.value));
    case CollectiveRun::Phase::result:
      return run->resulted(message.origin, std::move(message.value));
    case CollectiveRun::Phase::partial:
      return run->partly_merged(message.source, std::move(message.value));
    case CollectiveRun::Phase::abort:
      return break_up(message.group, message.generation, *message.error, false);
  }
}

}  // namespace thalweg::net
