// OpenCalls: the calls of a task that have not been answered yet: its own, and those of its peers.
//
// Every call that has begun is answered exactly once: by the peer, or with an error when it cannot be sent or the
// connection is lost. Further calls of a peer that has made as many at once as the limit allows are answered with
// ResourceExhaustedError; if the peer does not read these answers, its connection ends.
// Thread-safe. Answers are given without the lock.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "error.h"
#include "net/connection.h"

namespace thalweg::net {

class OpenCalls {
 public:
  // The answer to a call: an error, or bytes.
  using Answer = std::function<void(std::optional<Error>, std::string)>;

  // `most`: calls of one peer at once.
  explicit OpenCalls(size_t most) : most_(most) {}

  // Begins a call: its frame, which `send` sends.
  Frame begin(const std::shared_ptr<Connection>& peer, const std::string& method, const std::string& payload,
              Answer answer);
  void send(const std::shared_ptr<Connection>& peer, Frame frame);
  // Whether no call of this task waits for its answer.
  bool none_waits();
  // The answer of a peer; one that was not asked for is dropped.
  void answered(const std::shared_ptr<Connection>& from, Frame frame);

  // A peer has made a call: how to answer it; nothing if the peer is lost, or has been refused.
  Answer called(const std::shared_ptr<Connection>& from, uint64_t number);

  // Answers what the peer will not answer any more.
  void lost(const std::shared_ptr<Connection>& peer, const Error& why);

 private:
  struct Call {
    std::shared_ptr<Connection> peer;
    Answer answer;
  };
  // The answer of a call that waits for this peer (any, if null), which then does not wait any more.
  Answer take(uint64_t number, const Connection* peer);
  void has_answered(const Connection& from);
  static void reply(Connection& to, uint64_t number, const std::optional<Error>& failed, std::string bytes);

  const size_t most_;
  std::mutex mutex_;  // guards everything below
  uint64_t last_ = 0;
  std::unordered_map<uint64_t, Call> waiting_;
  std::unordered_map<uint64_t, size_t> unanswered_;  // calls of peers, by the number of the connection
};

}  // namespace thalweg::net
