// Callers: processes that have connected to this task and have not been admitted yet.
//
// A handshake blocks, on a thread of a pool of its own: callers that say nothing keep no other work waiting. Their
// number is limited, for each address and in all. Who comes when there is no room takes the place of the caller that
// has been there longest, because a task or client is admitted within milliseconds. Thread-safe.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "net/handshake.h"
#include "net/socket.h"

namespace thalweg::net {

class Callers {
 public:
  // Speaks with a caller; throws Error if the caller is refused.
  using Greet = std::function<Greeting(const Socket&)>;
  // Takes over a caller that is admitted.
  using Admit = std::function<void(Socket, Greeting)>;

  // At most `of_one` callers at one address, and four times as many in all.
  explicit Callers(size_t of_one) : of_one_(of_one) {}

  // Neither function is called any more when the other has thrown. Both must keep what they need.
  void add(Socket socket, Greet greet, Admit admit);
  // Hangs up on everybody.
  void close();
  size_t size();

 private:
  struct Caller {
    std::string host;
    Socket socket;
    bool gone = false;
  };
  using Place = std::list<Caller>::iterator;

  void make_room(const std::string& host);
  static void hang_up(Caller& caller);

  const size_t of_one_;
  std::mutex mutex_;           // guards everything below
  std::list<Caller> callers_;  // the one that has been here longest first
  bool closed_ = false;
};

}  // namespace thalweg::net
