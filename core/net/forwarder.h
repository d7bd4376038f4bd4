// Forwarder: passes the bytes of TCP connections on to a Unix socket (an abstract name), and back: for callers that
// speak HTTP/2, which a gRPC server answers that cannot take over sockets.
//
// One thread per connection, and a limited number of connections; none of this is on the step path. Thread-safe.
// `close` ends all connections and waits for their threads; the object must be held by a shared pointer.
#pragma once

#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "net/socket.h"

namespace thalweg::net {

class Forwarder : public std::enable_shared_from_this<Forwarder> {
 public:
  explicit Forwarder(std::string name) : name_(std::move(name)) {}
  // Forwards a connection of which `first` has been read already; closes it if there are too many.
  void take(Socket caller, std::string_view first);
  void close();
  size_t size();

 private:
  static constexpr size_t kMost = 256;
  struct Connection {
    Socket caller, server;
  };

  const std::string name_;
  std::mutex mutex_;  // guards everything below
  std::condition_variable ended_;
  bool closed_ = false;
  std::list<Connection> connections_;
};

}  // namespace thalweg::net
