// Making, tuning and using sockets.
#include "net/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace thalweg::net {
namespace {

[[noreturn]] void fail_at(const std::string& what, const std::string& host, int port, const std::string& why) {
  fail(Code::unavailable, what, " ", host, ":", port, ": ", why);
}

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

AddressList resolve(const std::string& host, int port, bool passive) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const std::string service = std::to_string(port);
  if (int error = getaddrinfo(host.empty() ? nullptr : host.c_str(), service.c_str(), &hints, &found))
    fail_at("cannot find the host of", host, port, gai_strerror(error));
  return AddressList(found, freeaddrinfo);
}

// Waits for events on a socket; false when the time is over.
bool wait_for(int fd, short events, Clock::time_point until) {
  while (true) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left < 0) return false;
    pollfd waiting{fd, events, 0};
    int ready = poll(&waiting, 1, static_cast<int>(std::min<int64_t>(left + 1, 1000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) fail(Code::internal, "poll: ", std::strerror(errno));
  }
}

// The address of an abstract name; its size.
socklen_t unix_name(const std::string& name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  require(name.size() < sizeof address.sun_path, "the name of a Unix socket is too long: ", name);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

// The abstract name of the task that listens at a TCP port of this host.
std::string name_of_port(int port) { return "thalweg." + std::to_string(port); }

bool same_host(const sockaddr* a, const sockaddr* b) {
  if (a == nullptr || a->sa_family != b->sa_family) return false;
  if (a->sa_family == AF_INET)
    return reinterpret_cast<const sockaddr_in*>(a)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(b)->sin_addr.s_addr;
  return a->sa_family == AF_INET6 && std::memcmp(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr,
                                                 &reinterpret_cast<const sockaddr_in6*>(b)->sin6_addr, 16) == 0;
}

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET)
    return (ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24) == 127;
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

bool is_here(const std::string& host, int port) {
  AddressList found = resolve(host, port, false);
  for (addrinfo* each = found.get(); each != nullptr; each = each->ai_next)
    if (is_loopback(each->ai_addr)) return true;
  ifaddrs* own = nullptr;
  if (getifaddrs(&own) != 0) return false;
  bool here = false;
  for (ifaddrs* mine = own; mine != nullptr && !here; mine = mine->ifa_next)
    for (addrinfo* each = found.get(); each != nullptr && !here; each = each->ai_next)
      here = same_host(mine->ifa_addr, each->ai_addr);
  freeifaddrs(own);
  return here;
}

// The user of the process at the other end of a Unix socket.
uid_t peer_user(const Socket& socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (getsockopt(socket.fd(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return static_cast<uid_t>(-1);
  return credentials.uid;
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = std::exchange(other.fd_, -1);
  return *this;
}

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

std::pair<std::string, int> parse_address(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon == std::string::npos ? 0 : colon);
  const std::string digits = colon == std::string::npos ? "" : address.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  int port = 0;
  for (char c : digits) port = c >= '0' && c <= '9' && port <= 65535 ? port * 10 + (c - '0') : 1 << 20;
  require(!digits.empty() && digits.size() <= 5 && port <= 65535 && !host.empty(), "'", address.substr(0, 200),
          "' is not an address: expected host:port");
  return {host, port};
}

Socket listen_tcp(const std::string& host, int& port) {
  AddressList found = resolve(host, port, true);
  std::string why = "no address";
  for (addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
    Socket socket(::socket(each->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int one = 1;
    if (socket) setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (!socket || bind(socket.fd(), each->ai_addr, each->ai_addrlen) != 0 || listen(socket.fd(), 512) != 0) {
      why = std::strerror(errno);
      continue;
    }
    sockaddr_storage bound{};
    socklen_t size = sizeof bound;
    getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&bound), &size);
    port = ntohs(bound.ss_family == AF_INET ? reinterpret_cast<sockaddr_in*>(&bound)->sin_port
                                            : reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port);
    return socket;
  }
  fail_at("cannot listen at", host, port, why);
}

Socket listen_unix(int port) {
  Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_un address;
  const socklen_t size = unix_name(name_of_port(port), address);
  if (!socket || bind(socket.fd(), reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(socket.fd(), 512) != 0)
    return {};
  return socket;
}

Socket connect_tcp(const std::string& host, int port, Clock::time_point until) {
  AddressList found = resolve(host, port, false);
  std::string why = "no address";
  for (addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
    Socket socket(::socket(each->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    int error = socket && connect(socket.fd(), each->ai_addr, each->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      socklen_t size = sizeof error;
      if (!wait_for(socket.fd(), POLLOUT, until))
        error = ETIMEDOUT;
      else
        getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error == 0) return socket;
    why = std::strerror(error);
  }
  fail_at("cannot connect to", host, port, why);
}

Socket connect_unix(const std::string& host, int port) {
  if (!is_here(host, port)) return {};
  Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_un address;
  const socklen_t size = unix_name(name_of_port(port), address);
  if (!socket || connect(socket.fd(), reinterpret_cast<sockaddr*>(&address), size) != 0) return {};
  // Any process of the host can take a name in the abstract namespace, before the task does.
  if (!is_trusted_user(socket)) return {};
  return socket;
}

Socket connect_abstract(const std::string& name) {
  Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_un address;
  const socklen_t size = unix_name(name, address);
  if (!socket || connect(socket.fd(), reinterpret_cast<sockaddr*>(&address), size) != 0)
    fail(Code::unavailable, "cannot connect to the Unix socket ", name, ": ", std::strerror(errno));
  return socket;
}

Socket accept_from(const Socket& listening) {
  return Socket(accept4(listening.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

namespace {

template <typename Move>
void move_all(const Socket& socket, size_t size, short events, Clock::time_point until, const Move& move) {
  for (size_t done = 0; done < size;) {
    const ssize_t moved = move(done);
    if (moved > 0) {
      done += static_cast<size_t>(moved);
    } else if (moved == 0) {
      fail(Code::unavailable, "the other side closed the connection");
    } else if (errno == EAGAIN) {
      if (!wait_for(socket.fd(), events, until)) fail(Code::deadline_exceeded, "the other side does not answer");
    } else if (errno != EINTR) {
      fail(Code::unavailable, "the connection failed: ", std::strerror(errno));
    }
  }
}

}  // namespace

void write_all(const Socket& socket, const void* data, size_t size, Clock::time_point until) {
  move_all(socket, size, POLLOUT, until, [&](size_t done) {
    return send(socket.fd(), static_cast<const char*>(data) + done, size - done, MSG_NOSIGNAL);
  });
}

void read_all(const Socket& socket, void* data, size_t size, Clock::time_point until) {
  move_all(socket, size, POLLIN, until,
           [&](size_t done) { return recv(socket.fd(), static_cast<char*>(data) + done, size - done, 0); });
}

void peek(const Socket& socket, char* byte, Clock::time_point until) {
  move_all(socket, 1, POLLIN, until, [&](size_t) { return recv(socket.fd(), byte, 1, MSG_PEEK); });
}

bool is_trusted_user(const Socket& socket) {
  const uid_t user = peer_user(socket);
  return user == geteuid() || user == 0;
}

std::string peer_host(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return "?";
  if (address.ss_family == AF_UNIX) return "user " + std::to_string(peer_user(socket));
  char host[INET6_ADDRSTRLEN] = {};
  if (address.ss_family == AF_INET)
    inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in*>(&address)->sin_addr, host, sizeof host);
  else
    inet_ntop(AF_INET6, &reinterpret_cast<sockaddr_in6*>(&address)->sin6_addr, host, sizeof host);
  return host;
}

void tune(const Socket& socket) {
  constexpr uint32_t kNear = 150;  // microseconds from here and back
  const int one = 1, buffer = 4 << 20, near_buffer = 256 << 10;
  setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);  // fails on a Unix socket, which never waits
  // A frame that a short cut of the link has lost is sent again every 0.2 s, not after 0.2, 0.4, 0.8, 1.6 s.
  setsockopt(socket.fd(), IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &one, sizeof one);
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size);
  if (address.ss_family != AF_UNIX) {
    // TCP chooses its buffers by itself, up to megabytes, for links on which much is under way. Where an answer takes
    // microseconds, that only moves bytes out of the caches before they are read.
    tcp_info info{};
    socklen_t length = sizeof info;
    if (getsockopt(socket.fd(), IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && info.tcpi_rtt > 0 &&
        info.tcpi_rtt <= kNear)
      setsockopt(socket.fd(), SOL_SOCKET, SO_SNDBUF, &near_buffer, sizeof near_buffer);
  } else {
    setsockopt(socket.fd(), SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    setsockopt(socket.fd(), SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
  }
}

}  // namespace thalweg::net
