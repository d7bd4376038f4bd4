// A collective group in which all other members belong to a peer that sends whatever it likes: for tests and fuzzers.
#pragma once

#include <cstring>

#include "net/collectives.h"
#include "net_mutations.h"
#include "thread/run_soon.h"

namespace native_tests {

inline const Identity kOwn{"c", "/job:w/replica:0/task:0", 1}, kPeer{"c", "/job:w/replica:0/task:1", 2};

using Hosts = std::vector<std::string>;
inline const Hosts kApart{"", ""}, kTwoByTwo{"a", "a", "b", "b"};

// Group 1, generation 1: rank 0 is here, the others are devices of the peer.
class HostileMember {
 public:
  explicit HostileMember(const Limits& limits = {}, const Identity& peer = kPeer, const Hosts& hosts = kApart)
      : collectives(std::make_shared<Collectives>(kOwn.task, limits)) {
    auto [mine, theirs] = socket_pair();
    Greeting greeting;
    greeting.peer = peer;
    connection = Connection::make(std::move(mine), std::move(greeting), owner_, limits);
    other_end_ = std::move(theirs);
    std::vector<CollectiveMember> members{{kOwn.task, "device:CPU:0", kOwn.incarnation, nullptr, hosts[0]}};
    for (size_t rank = 1; rank < hosts.size(); ++rank) {
      members.push_back(member(peer));
      members.back().host = hosts[rank];
    }
    size_ = static_cast<int64_t>(hosts.size());
    collectives->formed(1, 1, std::move(members));
  }
  ~HostileMember() {
    const Error end(Code::cancelled, "the test ends");
    collectives->close(end);
    connection->close(end);
  }

  CollectiveMember member(const Identity& peer) const {
    return {peer.task, "device:CPU:0", peer.incarnation, connection};
  }

  // A call of the local member; what becomes of it is in `ended`.
  void start(Collective kind, const Tensor& input, int64_t instance = 7) {
    CollectiveCall call;
    call.group = 1;
    call.size = size_;
    call.instance = instance;
    call.device = "/job:w/replica:0/task:0/device:CPU:0";
    call.header = header(kind, input);
    call.input = input;
    collectives->start(std::move(call), [this](std::optional<Error> error, Tensor value) {
      std::lock_guard lock(mutex_);
      ended.emplace_back(std::move(error), std::move(value));
    });
  }
  size_t num_ended() {
    std::lock_guard lock(mutex_);
    return ended.size();
  }

  void receive(Frame frame) {
    SoonScope soon;
    collectives->received(connection, std::move(frame));
  }

  static CollectiveHeader header(Collective kind, const Tensor& input, const Hosts& hosts = kApart) {
    CollectiveHeader header;
    header.kind = kind;
    header.dtype = input.dtype();
    header.shape = input.shape();
    header.layout = HostLayout(hosts).digest();
    return header;
  }
  // A contribution, partial result or result of rank 1 for run `count` of an instance.
  static Frame message(CollectiveRun::Phase phase, const CollectiveHeader& header, const Tensor& value,
                       uint64_t count = 0, int64_t instance = 7, uint64_t generation = 1, uint64_t group = 1) {
    Frame frame{FrameKind::collective, static_cast<uint8_t>(phase), generation, group, {}, {}};
    Writer writer(frame.body);
    writer.put(instance).put(uint64_t{0}).put(int64_t{0}).put(count).put(int32_t{1}).put(int32_t{0}).put(int32_t{1});
    if (phase == CollectiveRun::Phase::contribution) header.put(writer);
    if (value.defined()) frame.tensors.push_back(value);
    return frame;
  }
  // The same of another rank, or of one that passes on what comes from `origin`.
  static Frame from(Frame frame, int32_t source, int32_t origin) {
    constexpr size_t kSource = 32;
    std::memcpy(frame.body.data() + kSource, &source, sizeof source);
    std::memcpy(frame.body.data() + kSource + 8, &origin, sizeof origin);
    return frame;
  }
  static Frame abort(const Error& why, int32_t source = 1) {
    Frame frame{FrameKind::collective, static_cast<uint8_t>(CollectiveRun::Phase::abort), 1, 1, {}, {}};
    Writer writer(frame.body);
    put_error(writer, why);
    writer.put(source);
    return frame;
  }

  const std::shared_ptr<Collectives> collectives;
  std::shared_ptr<Connection> connection;
  std::vector<std::pair<std::optional<Error>, Tensor>> ended;

 private:
  Recorder owner_;
  Socket other_end_;
  int64_t size_ = 0;
  std::mutex mutex_;
};

// Frames that the peer could send while a reduction of 40 or more numbers runs.
inline std::vector<Frame> sample_messages(const Hosts& hosts = kApart) {
  using Phase = CollectiveRun::Phase;
  const Tensor forty = counting(40), matrix = counting(40, Shape{2, 20}), large = counting(40000);
  std::vector<Frame> frames;
  for (Collective kind :
       {Collective::reduce, Collective::reduce_scatter, Collective::gather, Collective::broadcast, Collective::barrier})
    for (const Tensor& value : {forty, matrix, large})
      frames.push_back(HostileMember::message(Phase::contribution, HostileMember::header(kind, value, hosts), value));
  frames.push_back(HostileMember::message(Phase::result, {}, forty));
  frames.push_back(
      HostileMember::message(Phase::contribution, HostileMember::header(Collective::reduce, forty), forty, 3));
  frames.push_back(HostileMember::message(Phase::result, {}, counting(20000), 1));
  if (hosts.size() > 2) {
    const Tensor lanes = counting(80000);
    const CollectiveHeader header = HostileMember::header(Collective::reduce, lanes, hosts);
    frames.push_back(HostileMember::message(Phase::contribution, header, large));
    for (const int32_t rank : {2, 3}) {
      frames.push_back(HostileMember::from(HostileMember::message(Phase::contribution, header, Tensor()), rank, rank));
      frames.push_back(HostileMember::from(HostileMember::message(Phase::partial, {}, counting(20000)), rank, rank));
      frames.push_back(HostileMember::from(HostileMember::message(Phase::result, {}, counting(20000)), rank, rank));
    }
    frames.push_back(HostileMember::from(HostileMember::message(Phase::result, {}, counting(20000)), 1, 3));
  }
  frames.push_back(HostileMember::abort(Error(Code::aborted, "why")));
  return frames;
}

}  // namespace native_tests
