// Forwarding between callers and a Unix socket: bytes, ends, slow and lost sides, limits, and closing.
#include <netinet/in.h>
#include <poll.h>
#include <sys/un.h>

#include <future>

#include "net/forwarder.h"
#include "sockets.h"

namespace {

using namespace native_tests;

// Listens at an abstract name.
class Server {
 public:
  Server() {
    static int count = 0;
    name = cat("thalweg.test.forwarder.", getpid(), ".", ++count);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    listening_ = Socket(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    CHECK_EQUAL(bind(listening_.fd(), reinterpret_cast<sockaddr*>(&address), size), 0);
    CHECK_EQUAL(listen(listening_.fd(), 512), 0);
  }
  Socket accept() {
    pollfd waiting{listening_.fd(), POLLIN, 0};
    CHECK_EQUAL(poll(&waiting, 1, 10000), 1);
    return accept_from(listening_);
  }

  std::string name;

 private:
  Socket listening_;
};

std::string read_text(const Socket& socket, size_t size) {
  std::string text(size, '\0');
  read_all(socket, text.data(), size, Clock::now() + 10s);
  return text;
}

bool is_at_end(const Socket& socket) {
  pollfd waiting{socket.fd(), POLLIN, 0};
  CHECK_EQUAL(poll(&waiting, 1, 10000), 1);
  char byte;
  return recv(socket.fd(), &byte, 1, 0) <= 0;
}

// A caller whose connection is forwarded: its own end, and that of the server.
std::pair<Socket, Socket> forwarded(Server& server, const std::shared_ptr<Forwarder>& forwarder,
                                    std::string_view first = "PRI * HT") {
  auto [mine, theirs] = socket_pair();
  forwarder->take(std::move(theirs), first);
  Socket accepted = server.accept();
  CHECK_EQUAL(read_text(accepted, first.size()), first);
  return {std::move(mine), std::move(accepted)};
}

TEST(bytes_go_in_both_directions_after_those_that_were_read) {
  Server server;
  auto forwarder = std::make_shared<Forwarder>(server.name);
  auto [caller, accepted] = forwarded(server, forwarder);
  write_text(caller, "TP/2.0");
  CHECK_EQUAL(read_text(accepted, 6), "TP/2.0");
  write_text(accepted, "settings");
  CHECK_EQUAL(read_text(caller, 8), "settings");
  forwarder->close();
}

TEST(megabytes_arrive_whole_in_both_directions_at_once) {
  Server server;
  auto forwarder = std::make_shared<Forwarder>(server.name);
  auto [caller, accepted] = forwarded(server, forwarder);
  std::string data(20 << 20, '\0');
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 2654435761u >> 13);
  std::vector<std::future<void>> writers;
  for (const Socket* each : {&caller, &accepted})
    writers.push_back(std::async(std::launch::async, [&, each] { write_text(*each, data); }));
  auto other = std::async(std::launch::async, [&, &accepted = accepted] { return read_text(accepted, data.size()); });
  CHECK(read_text(caller, data.size()) == data);
  CHECK(other.get() == data);
  for (auto& each : writers) each.get();
  forwarder->close();
}

TEST(an_end_of_one_direction_leaves_the_other_one_open) {
  Server server;
  auto forwarder = std::make_shared<Forwarder>(server.name);
  auto [caller, accepted] = forwarded(server, forwarder);
  shutdown(caller.fd(), SHUT_WR);
  CHECK(is_at_end(accepted));
  write_text(accepted, "late");
  CHECK_EQUAL(read_text(caller, 4), "late");
  accepted = Socket();
  CHECK(is_at_end(caller));
  wait_until([&] { return forwarder->size() == 0; });
}

TEST(a_lost_side_ends_the_connection_and_no_other) {
  Server server;
  auto forwarder = std::make_shared<Forwarder>(server.name);
  auto [kept, kept_end] = forwarded(server, forwarder);
  for (bool callers : {true, false}) {
    auto [caller, accepted] = forwarded(server, forwarder);
    (callers ? caller : accepted) = Socket();
    CHECK(is_at_end(callers ? accepted : caller));
  }
  wait_until([&] { return forwarder->size() == 1; });
  write_text(kept, "still");
  CHECK_EQUAL(read_text(kept_end, 5), "still");
  forwarder->close();
}

TEST(who_does_not_read_takes_a_bounded_amount) {
  Server server;
  auto forwarder = std::make_shared<Forwarder>(server.name);
  auto [caller, accepted] = forwarded(server, forwarder);
  const std::string block(1 << 20, 'x');
  size_t taken = 0;
  // Writes until nothing is taken for a while: what the sockets and one buffer hold.
  for (int idle = 0; idle < 20;) {
    const ssize_t put = send(caller.fd(), block.data(), block.size(), MSG_NOSIGNAL);
    if (put > 0) {
      taken += static_cast<size_t>(put);
      idle = 0;
      CHECK(taken < (size_t{64} << 20));
    } else {
      ++idle;
      std::this_thread::sleep_for(5ms);
    }
  }
  CHECK_EQUAL(read_text(accepted, taken), std::string(taken, 'x'));
  forwarder->close();
}

TEST(without_a_server_the_caller_is_hung_up_on) {
  auto forwarder = std::make_shared<Forwarder>("thalweg.test.forwarder.nobody");
  auto [mine, theirs] = socket_pair();
  CHECK_FAILS(Code::unavailable, "thalweg.test.forwarder.nobody", forwarder->take(std::move(theirs), "x"));
  CHECK_EQUAL(forwarder->size(), 0u);
}

TEST(callers_beyond_the_limit_are_hung_up_on) {
  Server server;
  auto forwarder = std::make_shared<Forwarder>(server.name);
  std::vector<std::pair<Socket, Socket>> connections;
  for (int i = 0; i < 256; ++i) connections.push_back(forwarded(server, forwarder));
  CHECK_EQUAL(forwarder->size(), 256u);
  auto [mine, theirs] = socket_pair();
  forwarder->take(std::move(theirs), "x");
  CHECK(is_at_end(mine));
  connections.pop_back();
  wait_until([&] { return forwarder->size() == 255; });
  server.accept();
  auto [again, accepted] = forwarded(server, forwarder);
  write_text(again, "room");
  CHECK_EQUAL(read_text(accepted, 4), "room");
  forwarder->close();
  CHECK_EQUAL(forwarder->size(), 0u);
}

TEST(closing_ends_connections_that_are_in_use_and_admits_no_more) {
  Server server;
  auto forwarder = std::make_shared<Forwarder>(server.name);
  auto [caller, accepted] = forwarded(server, forwarder);
  std::thread writer([&, &caller = caller] {
    try {
      write_text(caller, std::string(64 << 20, 'x'));
    } catch (const Error&) {
      // The connection ends meanwhile.
    }
  });
  forwarder->close();
  writer.join();
  CHECK_EQUAL(forwarder->size(), 0u);
  auto [mine, theirs] = socket_pair();
  forwarder->take(std::move(theirs), "x");
  CHECK(is_at_end(mine));
}

// The caller's and the server's bytes, in pieces of any size, with ends and resets at any moment.
TEST(random_traffic_and_ends_leave_nothing_behind) {
  Server server;
  auto forwarder = std::make_shared<Forwarder>(server.name);
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    uint64_t state = seed * 0x9e3779b97f4a7c15u;
    auto random = [&](size_t end) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      return (state >> 33) % end;
    };
    auto [caller, accepted] = forwarded(server, forwarder);
    std::string block(random(100000) + 1, 'y');
    for (int i = 0; i < 6; ++i) {
      const Socket& side = random(2) ? caller : accepted;
      switch (random(4)) {
        case 0:
          send(side.fd(), block.data(), block.size(), MSG_NOSIGNAL);
          break;
        case 1:
          recv(side.fd(), block.data(), block.size(), MSG_DONTWAIT);
          break;
        case 2:
          shutdown(side.fd(), random(2) ? SHUT_WR : SHUT_RD);
          break;
        default:
          std::this_thread::yield();
      }
    }
  }
  wait_until([&] { return forwarder->size() == 0; });
}

}  // namespace
