// EarlyMessages: how much each peer has sent for which nobody here has asked yet.
//
// A peer may be ahead of this process, and what it sends is kept; but not without limits. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "error.h"

namespace thalweg::net {

class EarlyMessages {
 public:
  EarlyMessages(size_t most_messages, size_t most_bytes) : most_messages_(most_messages), most_bytes_(most_bytes) {}

  // Counts a message of a peer, by the number of its connection; ResourceExhaustedError if there are too many.
  void charge(uint64_t peer, size_t bytes) {
    Sender& sender = senders_[peer];
    if (sender.messages >= most_messages_ || bytes > most_bytes_ || sender.bytes > most_bytes_ - bytes)
      fail(Code::resource_exhausted, "the peer has sent ", sender.messages, " messages of ", sender.bytes,
           " bytes for operations that have not begun here, and one of ", bytes, " bytes more");
    ++sender.messages;
    sender.bytes += bytes;
  }
  // Takes a `charge` back, unless the peer has been forgotten.
  void discharge(uint64_t peer, size_t bytes) {
    auto found = senders_.find(peer);
    if (found == senders_.end()) return;
    found->second.bytes -= bytes;
    if (--found->second.messages == 0) senders_.erase(found);
  }
  void forget(uint64_t peer) { senders_.erase(peer); }
  size_t size() const { return senders_.size(); }

 private:
  struct Sender {
    size_t messages = 0, bytes = 0;
  };
  const size_t most_messages_, most_bytes_;
  std::unordered_map<uint64_t, Sender> senders_;
};

}  // namespace thalweg::net
