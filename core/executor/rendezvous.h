// Rendezvous: where a Send and its Recv meet, by key; also where a partial run's feeds and fetches meet its step.
//
// Values under one key arrive in order and are handed out in order; either side may come first. `recv` never blocks:
// its callback runs at once if the value is there, else on the sender's thread, always without the lock. `abort` fails
// all waiting and all later calls. An empty tensor is the dead token. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tensor/tensor.h"

namespace thalweg {

class Rendezvous {
 public:
  using Receive = std::function<void(std::optional<Error>, Tensor)>;

  // What two ends agree on. Made once, because names are long; equal names make equal keys.
  class Key {
   public:
    explicit Key(std::string name)
        : name_(std::make_shared<const std::string>(std::move(name))), hash_(std::hash<std::string>{}(*name_)) {}
    bool operator==(const Key& other) const {
      return name_ == other.name_ || (hash_ == other.hash_ && *name_ == *other.name_);
    }
    size_t hash() const { return hash_; }

   private:
    std::shared_ptr<const std::string> name_;
    size_t hash_;
  };

  // `iteration` tells apart what is sent in the iterations of a loop; 0 outside of loops.
  void send(const Key& key, uint64_t iteration, Tensor value);
  void recv(const Key& key, uint64_t iteration, Receive receive);
  // Takes the value if it is there.
  bool try_recv(const Key& key, uint64_t iteration, Tensor& value);
  void abort(const Error& error);

 private:
  struct Place {
    Key key;
    uint64_t iteration;
    bool operator==(const Place&) const = default;
  };
  struct Hash {
    size_t operator()(const Place& place) const { return place.key.hash() ^ (place.iteration * 0x9e3779b97f4a7c15u); }
  };
  struct Slot {
    std::vector<Tensor> values;  // seldom more than one
    std::vector<Receive> waiting;
  };
  std::mutex mutex_;
  std::unordered_map<Place, Slot, Hash> slots_;
  std::optional<Error> aborted_;
};

}  // namespace thalweg
