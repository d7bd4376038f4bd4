// Sockets: a descriptor with an owner, and the few ways in which tasks make one.
//
// Tasks on one host reach each other by a Unix socket in the abstract namespace, named after the TCP port of the one
// that listens; all others by TCP. Functions throw UnavailableError with the address and the system's reason.
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "error.h"

namespace thalweg::net {

using Clock = std::chrono::steady_clock;

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();
  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// "host:port" or "[host]:port"; InvalidArgumentError if it is neither.
std::pair<std::string, int> parse_address(const std::string& address);

// Listens; port 0 takes a free one. The port that was bound is returned in `port`.
Socket listen_tcp(const std::string& host, int& port);
// Listens under the name that belongs to a TCP port of this host. Empty if the name is taken.
Socket listen_unix(int port);
Socket connect_tcp(const std::string& host, int port, Clock::time_point until);
// Empty if no task of this user (or of root) listens there, or the host is another one.
Socket connect_unix(const std::string& host, int port);
// Connects to a Unix socket in the abstract namespace.
Socket connect_abstract(const std::string& name);
// A connection that waits in a listening socket; empty if there is none.
Socket accept_from(const Socket& listening);

// Blocking transfers of exactly `size` bytes before a point in time, for handshakes. Throw UnavailableError, and
// DeadlineExceededError when the time is over.
void write_all(const Socket& socket, const void* data, size_t size, Clock::time_point until);
void read_all(const Socket& socket, void* data, size_t size, Clock::time_point until);
// Waits for the next byte, and leaves it in the socket.
void peek(const Socket& socket, char* byte, Clock::time_point until);
// Whether the process at the other end of a Unix socket runs as this user, or as root.
bool is_trusted_user(const Socket& socket);
// Who is at the other end, for counting: an address without a port, or the user of a process of this host.
std::string peer_host(const Socket& socket);

// Small frames leave at once; buffers are large enough for the step path.
void tune(const Socket& socket);

}  // namespace thalweg::net
