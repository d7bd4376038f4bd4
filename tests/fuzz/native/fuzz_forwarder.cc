// Fuzzes Forwarder: both sides write any bytes, read and end in any order, and each receives the bytes that were sent
// (make fuzz-native).
//
// Each byte is an action: its lowest bit is the side, the next two bits the kind, the rest the number of bytes.
#include <sys/un.h>

#include "../../native/sockets.h"
#include "net/forwarder.h"

namespace {

using namespace native_tests;

const std::string kName = cat("thalweg.fuzz.forwarder.", getpid());

Socket listen_at_name() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, kName.data(), kName.size());
  Socket listening(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + kName.size());
  if (bind(listening.fd(), reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listening.fd(), 8) != 0) abort();
  return listening;
}

// One side, and how far the pattern has come that it writes and reads.
struct Side {
  Socket socket;
  size_t written = 0, read = 0;
};

char pattern(size_t at, int side) { return static_cast<char>((at * 2654435761u >> 11) + static_cast<size_t>(side)); }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Socket listening = listen_at_name();
  auto forwarder = std::make_shared<Forwarder>(kName);
  auto [mine, theirs] = socket_pair();
  forwarder->take(std::move(theirs), "first");
  Side sides[2] = {{std::move(mine)}, {accept_from(listening)}};
  char first[5];
  read_all(sides[1].socket, first, sizeof first, Clock::now() + 10s);
  for (size_t i = 0; i < size; ++i) {
    const int at = data[i] & 1;
    Side &side = sides[at], &other = sides[1 - at];
    if (!side.socket) continue;
    std::string block(size_t{1} << (data[i] >> 3) % 18, '\0');
    switch (data[i] >> 1 & 3) {
      case 0: {
        for (size_t j = 0; j < block.size(); ++j) block[j] = pattern(side.written + j, at);
        const ssize_t put = send(side.socket.fd(), block.data(), block.size(), MSG_NOSIGNAL);
        if (put > 0) side.written += static_cast<size_t>(put);
        break;
      }
      case 1: {
        const ssize_t got = recv(side.socket.fd(), block.data(), block.size(), 0);
        for (ssize_t j = 0; j < got; ++j, ++side.read)
          if (side.read >= other.written || block[static_cast<size_t>(j)] != pattern(side.read, 1 - at)) abort();
        break;
      }
      case 2:
        shutdown(side.socket.fd(), SHUT_WR);
        break;
      default:
        if (data[i] >> 3 == 31) side.socket = Socket();
    }
  }
  forwarder->close();
  return 0;
}
