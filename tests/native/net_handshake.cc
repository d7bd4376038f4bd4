// Handshakes between honest, mistaken, slow and hostile processes.
#include <future>

#include "net/sha256.h"
#include "sockets.h"

namespace {

using namespace native_tests;

const Identity kServer{"c", "/job:ps/replica:0/task:0", 11}, kCaller{"c", "/job:worker/replica:0/task:1", 22};

struct Outcome {
  std::optional<Greeting> greeting;
  std::optional<Error> error;
};

template <typename F>
Outcome outcome_of(const F& f) {
  try {
    return {f(), {}};
  } catch (const Error& error) {
    return {{}, error};
  }
}

// Both sides, in two threads: the caller's end and the server's.
std::pair<Outcome, Outcome> shake(std::string_view callers_key, std::string_view servers_key,
                                  const Identity& caller = kCaller, SharedArena* arena = nullptr) {
  auto [mine, theirs] = socket_pair();
  const auto until = Clock::now() + 20s;
  auto server = std::async(std::launch::async, [&, &theirs = theirs] {
    Outcome found = outcome_of([&] { return answer(theirs, kServer, servers_key, arena, arena != nullptr, until); });
    if (found.error) theirs = Socket();
    return found;
  });
  Outcome called =
      outcome_of([&, &mine = mine] { return net::call(mine, caller, callers_key, arena, arena != nullptr, until); });
  return {std::move(called), server.get()};
}

TEST(both_sides_learn_who_the_other_one_is) {
  for (std::string key : {"", "secret"}) {
    auto [called, answered] = shake(key, key);
    CHECK(called.greeting && answered.greeting);
    CHECK_EQUAL(called.greeting->peer.task, kServer.task);
    CHECK_EQUAL(called.greeting->peer.incarnation, 11u);
    CHECK_EQUAL(answered.greeting->peer.task, kCaller.task);
    CHECK_EQUAL(answered.greeting->peer.incarnation, 22u);
    CHECK(!called.greeting->arena && !answered.greeting->arena);
  }
}

TEST(arenas_are_exchanged_on_one_host) {
  auto [called, answered] = shake("k", "k", kCaller, SharedArena::get());
  CHECK(called.greeting && answered.greeting);
  CHECK_EQUAL(called.greeting->arena->size(), SharedArena::get()->size());
  CHECK_EQUAL(answered.greeting->arena->size(), SharedArena::get()->size());
}

TEST(a_wrong_or_missing_key_is_refused_by_name) {
  for (auto [callers, servers] : {std::pair{"wrong", "right"}, {"", "right"}, {"right", ""}}) {
    auto [called, answered] = shake(callers, servers);
    CHECK(called.error && answered.error);
    CHECK(called.error->code() == Code::unauthenticated);
    CHECK(called.error->message().find("does not know the cluster's key") != std::string::npos);
  }
}

TEST(a_task_of_another_cluster_is_refused_and_a_client_is_not) {
  // The name has the word in it that the message about a wrong key has.
  auto [called, answered] = shake("k", "k", {"monkeys", kCaller.task, 1});
  CHECK(called.error && called.error->code() == Code::failed_precondition);
  CHECK(called.error->message().find("'monkeys'") != std::string::npos);
  CHECK(shake("k", "k", {"other", "", 1}).second.greeting);
}

TEST(names_that_are_too_long_cost_the_caller_its_connection) {
  auto [called, answered] = shake("k", "k", {std::string(5000, 'x'), kCaller.task, 1});
  CHECK(answered.error && answered.error->code() == Code::unavailable);
  CHECK(called.error && called.error->code() == Code::unavailable);
  CHECK(shake("k", "k", {std::string(3900, 'x'), kCaller.task, 1}).first.error->code() == Code::failed_precondition);
}

// A caller or server that speaks the protocol by hand.
struct ByHand {
  Socket socket;
  void text(std::string_view value) {
    std::string bytes;
    Writer(bytes).text(value);
    write_text(socket, bytes);
  }
  std::string text() {
    uint32_t size = 0;
    read_all(socket, &size, sizeof size, Clock::now() + 10s);
    CHECK(size < 10000);
    std::string value(size, '\0');
    read_all(socket, value.data(), size, Clock::now() + 10s);
    return value;
  }
};

std::string hello(const Identity& identity, bool shares = false) {
  std::string bytes;
  Writer(bytes).text(identity.cluster).text(identity.task).put(identity.incarnation).put(static_cast<uint8_t>(shares));
  return bytes + std::string(16, 'r');
}

std::string proof(std::string_view key, const char* side, std::string_view callers, std::string_view servers) {
  std::string message;
  Writer(message).text(side).text(callers).text(servers);
  const Digest digest = hmac_sha256(key, message);
  return std::string(digest.begin(), digest.end());
}

// A server with the key "k" in a thread, and a caller by hand.
struct Called {
  explicit Called(std::chrono::milliseconds patience = 20s, SharedArena* arena = nullptr) {
    auto [mine, theirs] = socket_pair();
    hand.socket = std::move(mine);
    server = std::async(std::launch::async, [socket = std::move(theirs), patience, arena]() mutable {
      Outcome found =
          outcome_of([&] { return answer(socket, kServer, "k", arena, arena != nullptr, Clock::now() + patience); });
      if (found.error) socket = Socket();
      return found;
    });
  }
  void say_hello(const std::string& bytes) {
    write_text(hand.socket, std::string_view(kMagic, sizeof kMagic));
    hand.text(bytes);
    servers_hello = hand.text();
    servers_proof = hand.text();
  }
  ByHand hand;
  std::string servers_hello, servers_proof;
  std::future<Outcome> server;
};

TEST(a_caller_by_hand_with_the_key_is_admitted) {
  Called called;
  called.say_hello(hello(kCaller));
  CHECK_EQUAL(called.servers_proof, proof("k", "server", hello(kCaller), called.servers_hello));
  called.hand.text(proof("k", "caller", hello(kCaller), called.servers_hello));
  CHECK_EQUAL(called.hand.text(), "");
  CHECK(called.server.get().greeting);
}

TEST(a_caller_that_speaks_http2_is_told_from_one_that_is_admitted) {
  Called called;
  write_text(called.hand.socket, kHttp2);
  const Outcome outcome = called.server.get();
  CHECK(outcome.greeting && outcome.greeting->http2 && outcome.greeting->peer.task.empty());
  Called admitted;
  admitted.say_hello(hello(kCaller));
  admitted.hand.text(proof("k", "caller", hello(kCaller), admitted.servers_hello));
  CHECK(!admitted.server.get().greeting->http2);
}

TEST(a_replayed_handshake_is_refused) {
  Called first;
  first.say_hello(hello(kCaller));
  const std::string recorded = proof("k", "caller", hello(kCaller), first.servers_hello);
  first.hand.text(recorded);
  CHECK(first.server.get().greeting);
  Called second;
  second.say_hello(hello(kCaller));
  second.hand.text(recorded);
  CHECK(second.server.get().error->code() == Code::unauthenticated);
}

TEST(a_reflected_proof_is_refused) {
  Called called;
  called.say_hello(hello(kServer));
  called.hand.text(called.servers_proof);
  CHECK(called.server.get().error->code() == Code::unauthenticated);
}

TEST(an_empty_or_long_proof_is_refused) {
  for (const std::string& shown : {std::string(), std::string(33, 'x'), std::string(4096, 'x')}) {
    Called called;
    called.say_hello(hello(kCaller));
    called.hand.text(shown);
    CHECK(called.server.get().error->code() == Code::unauthenticated);
  }
}

TEST(a_slow_caller_is_given_up_at_the_deadline) {
  Called silent(50ms);
  CHECK(silent.server.get().error->code() == Code::deadline_exceeded);
  Called slow(100ms);
  // Each byte alone comes in time.
  std::string bytes(kMagic, sizeof kMagic);
  Writer(bytes).text(hello(kCaller));
  for (char c : bytes) {
    if (send(slow.hand.socket.fd(), &c, 1, MSG_NOSIGNAL) != 1) break;
    std::this_thread::sleep_for(10ms);
  }
  CHECK(slow.server.get().error->code() == Code::deadline_exceeded);
}

TEST(what_is_no_handshake_costs_the_caller_its_connection) {
  std::string long_hello(kMagic, sizeof kMagic);
  Writer(long_hello).put(uint32_t{0xffffffff});
  std::string short_hello(kMagic, sizeof kMagic);
  Writer(short_hello).text("x");
  std::string extra_hello(kMagic, sizeof kMagic);
  Writer(extra_hello).text(hello(kCaller) + "x");
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        std::string("thalweg\2 and more"), std::string(100, '\0'), long_hello, short_hello, extra_hello}) {
    Called called;
    write_text(called.hand.socket, bytes);
    CHECK(called.server.get().error->code() == Code::unavailable);
  }
}

TEST(a_caller_that_hangs_up_is_noticed_at_once_wherever_it_does) {
  std::string all(kMagic, sizeof kMagic);
  Writer(all).text(hello(kCaller));
  for (size_t i = 0; i <= all.size(); ++i) {
    Called called;
    write_text(called.hand.socket, all.substr(0, i));
    called.hand.socket = Socket();
    CHECK(called.server.get().error->code() == Code::unavailable);
  }
}

TEST(a_caller_that_promises_memory_and_passes_none_is_refused) {
  for (bool hangs_up : {false, true}) {
    Called called(20s, SharedArena::get());
    called.say_hello(hello(kCaller, true));
    called.hand.text(proof("k", "caller", hello(kCaller, true), called.servers_hello));
    CHECK_EQUAL(called.hand.text(), "");
    if (hangs_up)
      called.hand.socket = Socket();
    else
      write_text(called.hand.socket, "x");
    CHECK(called.server.get().error->code() == Code::unavailable);
  }
}

// A server by hand, that answers a caller in a thread.
Error refusal_of(const std::string& shown, const std::string& refusal) {
  auto [mine, theirs] = socket_pair();
  auto caller = std::async(std::launch::async, [socket = std::move(theirs)] {
    return outcome_of([&] { return net::call(socket, kCaller, "k", nullptr, false, Clock::now() + 20s); });
  });
  ByHand hand{std::move(mine)};
  char magic[8];
  read_all(hand.socket, magic, 8, Clock::now() + 10s);
  const std::string called = hand.text();
  hand.text(hello(kServer));
  hand.text(shown.empty() ? proof("k", "server", called, hello(kServer)) : shown);
  hand.text();
  hand.text(refusal);
  return *caller.get().error;
}

TEST(a_server_that_does_not_know_the_key_is_refused) {
  const Error error = refusal_of(std::string(32, 'x'), "");
  CHECK(error.code() == Code::unauthenticated);
  CHECK(error.message().find("does not know the cluster's key") != std::string::npos);
}

TEST(a_server_cannot_choose_the_callers_error) {
  std::string bytes;
  Writer writer(bytes);
  put_error(writer, Error(Code::out_of_range, "the data has ended"));
  CHECK(refusal_of("", bytes).code() == Code::unavailable);
  CHECK(refusal_of("", "garbage").code() == Code::unavailable);
}

TEST(a_caller_that_speaks_tls_is_answered_with_an_alert) {
  auto [mine, theirs] = socket_pair();
  write_text(mine, std::string_view("\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 9));
  CHECK_FAILS(Code::unauthenticated, "the caller speaks TLS",
              answer(theirs, kServer, "k", nullptr, false, Clock::now() + 10s));
  char alert[7];
  read_all(mine, alert, sizeof alert, Clock::now() + 10s);
  CHECK_EQUAL(int{alert[0]}, 0x15);
}

TEST(who_is_refused_learns_why_and_nothing_else) {
  auto [mine, theirs] = socket_pair();
  auto server = std::async(std::launch::async, [&, &theirs = theirs] {
    return outcome_of(
        [&]() -> Greeting { refuse(theirs, Error(Code::unauthenticated, "needs TLS"), Clock::now() + 20s); });
  });
  Outcome called =
      outcome_of([&, &mine = mine] { return net::call(mine, kCaller, "k", nullptr, false, Clock::now() + 20s); });
  CHECK(called.error && called.error->code() == Code::unauthenticated);
  CHECK_EQUAL(called.error->message(), "needs TLS");
  CHECK(server.get().error);
}

}  // namespace
