// LocalRendezvous: the rendezvous of a step whose devices all belong to this process: a table in memory.
//
// The table is indexed by the hashes of keys, which also stand for keys in messages between tasks. A step in which two
// keys have the same hash is refused when it is compiled (JointStep::check_keys).
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "executor/rendezvous.h"

namespace thalweg {

class LocalRendezvous final : public Rendezvous {
 public:
  using Rendezvous::Rendezvous;
  void send(const Key& key, FrameIteration at, Tensor value) override;
  void recv(const Key& key, FrameIteration at, Receive receive) override;
  bool try_recv(const Key& key, FrameIteration at, Tensor& value) override;
  void abort(const Error& error) override;
  // Something that lasts as long as a value waits here to be received.
  using Hold = std::shared_ptr<void>;
  // A value from another task, for the key with this hash. `hold` is called, without the lock, if nobody waits for it.
  void deliver(uint64_t key, FrameIteration at, Tensor value, const std::function<Hold(const Tensor&)>& hold = {});

 private:
  struct Place {
    uint64_t key;
    FrameIteration at;
    bool operator==(const Place&) const = default;
  };
  struct Hash {
    size_t operator()(const Place& place) const {
      return place.key ^ place.at.frame ^ (static_cast<uint64_t>(place.at.iteration) * 0x9e3779b97f4a7c15u);
    }
  };
  struct Value {
    Tensor tensor;
    Hold hold;
  };
  struct Slot {
    std::vector<Value> values;  // seldom more than one
    std::vector<Receive> waiting;
  };
  using Slots = std::unordered_map<Place, Slot, Hash>;

  // Hands a value to the receiver that waits for it. If none does: false, and the value is kept if there is a `hold`.
  bool hand_over(const Place& place, Tensor& value, Hold* hold);
  // The first value of a place. Called with the lock.
  Value taken(Slots::iterator found);

  std::mutex mutex_;  // guards everything below
  Slots slots_;
  std::optional<Error> aborted_;
};

}  // namespace thalweg
