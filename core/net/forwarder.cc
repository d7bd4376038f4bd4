// Copies bytes in both directions between two sockets.
#include "net/forwarder.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <system_error>
#include <thread>
#include <vector>

namespace thalweg::net {
namespace {

constexpr std::chrono::seconds kPatience(5);

// The bytes on their way from one socket to another. Both are non-blocking.
class Direction {
 public:
  Direction(int from, int to) : from_(from), to_(to), buffer_(1 << 18) {}
  short reads() const { return !ended_ && begin_ == end_ ? POLLIN : 0; }
  short writes() const { return begin_ < end_ ? POLLOUT : 0; }
  bool is_done() const { return ended_ && begin_ == end_; }

  // Moves what can be moved now; false if a socket failed.
  bool move() {
    if (begin_ == end_ && !ended_) {
      const ssize_t got = recv(from_, buffer_.data(), buffer_.size(), 0);
      if (got < 0) return errno == EAGAIN || errno == EINTR;
      begin_ = 0;
      end_ = static_cast<size_t>(got);
      if (got == 0) {
        ended_ = true;
        shutdown(to_, SHUT_WR);
      }
    }
    while (begin_ < end_) {
      const ssize_t put = send(to_, buffer_.data() + begin_, end_ - begin_, MSG_NOSIGNAL);
      if (put < 0) return errno == EAGAIN || errno == EINTR;
      begin_ += static_cast<size_t>(put);
    }
    return true;
  }

 private:
  const int from_, to_;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;
  bool ended_ = false;
};

void pump(int caller, int server) {
  Direction in(caller, server), out(server, caller);
  while (!in.is_done() || !out.is_done()) {
    const auto wanted = [](const Direction& reading, const Direction& writing) {
      return static_cast<short>(reading.reads() | writing.writes());
    };
    // A socket of which nothing is wanted is left out: a hang-up there would be reported again and again.
    const short of_caller = wanted(in, out), of_server = wanted(out, in);
    pollfd waiting[2] = {{of_caller ? caller : -1, of_caller, 0}, {of_server ? server : -1, of_server, 0}};
    if (poll(waiting, 2, -1) < 0 && errno != EINTR) return;
    if (!in.move() || !out.move()) return;
  }
}

}  // namespace

void Forwarder::take(Socket caller, std::string_view first) {
  const auto until = Clock::now() + kPatience;
  Socket server = connect_abstract(name_);
  write_all(server, first.data(), first.size(), until);
  std::lock_guard lock(mutex_);
  if (closed_ || connections_.size() >= kMost) return;
  auto connection = connections_.insert(connections_.end(), {std::move(caller), std::move(server)});
  // A caller whose host is gone says nothing more, and would keep its place.
  const int one = 1;
  setsockopt(connection->caller.fd(), SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
  try {
    std::thread([self = shared_from_this(), connection] {
      pump(connection->caller.fd(), connection->server.fd());
      std::lock_guard done(self->mutex_);
      self->connections_.erase(connection);
      self->ended_.notify_all();
    }).detach();
  } catch (const std::system_error& error) {
    connections_.erase(connection);
    fail(Code::resource_exhausted, "no thread for a connection that speaks HTTP/2: ", error.what());
  }
}

size_t Forwarder::size() {
  std::lock_guard lock(mutex_);
  return connections_.size();
}

void Forwarder::close() {
  std::unique_lock lock(mutex_);
  closed_ = true;
  for (Connection& each : connections_) {
    shutdown(each.caller.fd(), SHUT_RDWR);
    shutdown(each.server.fd(), SHUT_RDWR);
  }
  ended_.wait(lock, [this] { return connections_.empty(); });
}

}  // namespace thalweg::net
