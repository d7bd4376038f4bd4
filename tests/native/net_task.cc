// Tasks: calls, steps by number, lost and silent peers, limits, hostile bytes.
#include <future>

#include "net/task.h"
#include "sockets.h"

namespace {

using namespace native_tests;

constexpr auto kLong = 20s;
using Outcome = std::pair<std::optional<Error>, std::string>;

// A task that listens on the loopback interface; "echo" answers, "fail" fails, "wait" answers when it is told to.
struct Listener {
  explicit Listener(const std::string& name, Limits limits = {}, std::string key = "k",
                    std::chrono::milliseconds patience = 3000ms) {
    TaskOptions options{{"c", name, 7}, std::move(key), true, patience, limits};
    auto calls = [this](auto&, const std::string& method, const std::string& payload, Task::Answer answer) {
      if (method == "echo") return answer(std::nullopt, payload);
      if (method == "wait") {
        std::lock_guard lock(mutex);
        waiting.push_back(std::move(answer));
        return;
      }
      Error error(Code::not_found, "no method " + method);
      error.set_node("node", "Op");
      answer(error, {});
    };
    task = std::make_shared<Task>(options, calls, nullptr);
    port = task->listen("localhost", 0);
  }
  ~Listener() { task->close(); }
  std::string address() const { return cat("localhost:", port); }
  size_t num_waiting() {
    std::lock_guard lock(mutex);
    return waiting.size();
  }
  // A peer that has the key and then speaks by hand.
  Socket raw(const std::string& name = "") {
    Socket socket = connect_tcp("localhost", port, Clock::now() + kLong);
    net::call(socket, {"c", name, 99}, "k", nullptr, false, Clock::now() + kLong);
    return socket;
  }
  std::mutex mutex;
  std::vector<Task::Answer> waiting;
  std::shared_ptr<Task> task;
  int port = 0;
};

std::future<Outcome> call(Task& task, const std::shared_ptr<Connection>& peer, const std::string& method,
                          const std::string& payload = "p") {
  auto promise = std::make_shared<std::promise<Outcome>>();
  task.call(peer, method, payload, [promise](std::optional<Error> error, std::string answer) {
    promise->set_value({std::move(error), std::move(answer)});
  });
  return promise->get_future();
}

Outcome wait_for(std::future<Outcome> future) {
  CHECK(future.wait_for(kLong) == std::future_status::ready);
  return future.get();
}

// Whether the other side hangs up.
bool is_closed(const Socket& socket) {
  try {
    char bytes[1000];
    while (true) read_all(socket, bytes, 1, Clock::now() + kLong);
  } catch (const Error& error) {
    return error.code() == Code::unavailable;
  }
}

TEST(calls_are_answered_with_bytes_or_an_error) {
  Listener a("a"), b("b");
  for (bool tcp : {false, true}) {
    auto peer = a.task->connect(b.address(), kLong, tcp);
    CHECK_EQUAL(peer->peer().task, "b");
    CHECK_EQUAL(peer->shares_memory(), !tcp);
    const std::string payload(1 << 20, 'x');
    CHECK(wait_for(call(*a.task, peer, "echo", payload)).second == payload);
    const Error error = *wait_for(call(*a.task, peer, "nothing")).first;
    CHECK(error.code() == Code::not_found);
    CHECK_EQUAL(error.node(), "node");
  }
  CHECK(a.task->find("b", 7) != nullptr);
  CHECK(a.task->find("b", 8) == nullptr);
}

TEST(both_sides_of_a_connection_can_call) {
  Listener a("a"), b("b");
  a.task->connect(b.address(), kLong);
  wait_until([&] { return b.task->find("a", 7) != nullptr; });
  CHECK_EQUAL(wait_for(call(*b.task, b.task->find("a", 7), "echo")).second, "p");
}

TEST(a_call_whose_peer_is_lost_fails) {
  Listener a("a");
  std::future<Outcome> outcome;
  {
    Listener b("b");
    auto peer = a.task->connect(b.address(), kLong);
    outcome = call(*a.task, peer, "wait");
    wait_until([&] { return b.num_waiting() == 1; });
  }
  CHECK(wait_for(std::move(outcome)).first->code() == Code::unavailable);
  wait_until([&] { return a.task->connections().empty(); });
}

TEST(a_call_over_a_lost_connection_fails) {
  Listener a("a"), b("b");
  auto peer = a.task->connect(b.address(), kLong);
  peer->close(Error(Code::aborted, "gone"));
  CHECK_EQUAL(wait_for(call(*a.task, peer, "echo")).first->message(), "gone");
}

TEST(closing_a_task_ends_its_calls_and_it_can_be_closed_twice) {
  Listener a("a"), b("b");
  auto outcome = call(*a.task, a.task->connect(b.address(), kLong), "wait");
  a.task->close();
  a.task->close();
  CHECK(wait_for(std::move(outcome)).first->code() == Code::cancelled);
  CHECK_FAILS(Code::cancelled, "closed", a.task->connect(b.address(), kLong));
}

TEST(tasks_that_are_closed_while_others_connect_leave_nothing_behind) {
  for (int i = 0; i < 30; ++i) {
    Listener a("a"), b("b");
    std::thread connecting([&] {
      try {
        a.task->connect(b.address(), kLong);
      } catch (const Error&) {
      }
    });
    b.task->close();
    connecting.join();
  }
}

TEST(an_answer_that_cannot_be_read_fails_the_call_and_the_connection) {
  Listener a("a");
  int port = 0;
  Socket listening = listen_tcp("localhost", port);
  auto hand = std::async(std::launch::async, [&] {
    Socket socket;
    while (!socket) socket = accept_from(listening);
    answer(socket, {"c", "b", 1}, "k", nullptr, false, Clock::now() + kLong);
    return socket;
  });
  auto peer = a.task->connect(cat("localhost:", port), kLong, true);
  Socket socket = hand.get();
  auto outcome = call(*a.task, peer, "echo");
  write_text(socket, bytes_of({FrameKind::answer, 1, 0, 1, "\xff garbage", {}}));
  CHECK(wait_for(std::move(outcome)).first->code() == Code::unavailable);
  CHECK(is_closed(socket));
}

TEST(a_silent_peer_is_lost) {
  Listener b("b", {}, "k", 300ms);
  Socket hand = b.raw();
  wait_until([&] { return b.task->connections().size() == 1; });
  CHECK(is_closed(hand));
  wait_until([&] { return b.task->connections().empty(); });
}

TEST(a_peer_that_sends_and_never_reads_is_lost) {
  Listener b("b", {}, "k", 300ms);
  const std::string beat = bytes_of({FrameKind::heartbeat, 0, 0, 0, {}, {}});
  std::string call;
  Writer(call).text("echo");
  const std::string long_call = bytes_of({FrameKind::call, 0, 0, 1, call + std::string(16 << 20, 'x'), {}});
  Socket hand = b.raw();
  write_text(hand, long_call);
  wait_until([&] {
    send(hand.fd(), beat.data(), beat.size(), MSG_NOSIGNAL);
    std::this_thread::sleep_for(20ms);
    return b.task->connections().empty();
  });
}

TEST(a_step_that_is_not_known_is_refused_with_a_frame) {
  Listener b("b");
  Socket hand = b.raw();
  write_text(hand, bytes_of({FrameKind::run, 0, 5, 12345, {}, {}}));
  FrameHeader header;
  do read_all(hand, &header, sizeof header, Clock::now() + kLong);
  while (header.kind == static_cast<uint8_t>(FrameKind::heartbeat));
  CHECK_EQUAL(int{header.kind}, static_cast<int>(FrameKind::done));
  CHECK_EQUAL(header.step, 5u);
  CHECK_EQUAL(int{header.flags}, 1);
}

TEST(frames_that_no_task_sends_cost_the_sender_its_connection_and_nobody_else) {
  Listener a("a"), b("b");
  auto peer = a.task->connect(b.address(), kLong);
  const Frame lies[] = {
      {FrameKind::tensor, 0, 1, 2, std::string(16, '\0'), {}},                           // no tensor
      {FrameKind::tensor, 0, 1, 2, std::string(16, '\0'), {counting(1), counting(1)}},   // two of them
      {FrameKind::tensor, 0, 1, 2, "short", {counting(1)}},                              // where in the step?
      {FrameKind::cancel, 0, 1, 0, "", {}},                                              // no error
      {FrameKind::cancel, 0, 1, 0, std::string(1, '\x63') + std::string(12, '\0'), {}},  // no such error
      {FrameKind::done, 1, 1, 0, "", {}},                                                // no error
      {FrameKind::done, 0, 1, 0, "", {}},                                                // no statistics
      {FrameKind::call, 0, 0, 1, std::string("\xff\xff\xff\xff", 4), {}},                // a method of 4 GB
  };
  for (const Frame& lie : lies) {
    Socket hand = b.raw();
    write_text(hand, bytes_of(lie));
    CHECK(is_closed(hand));
  }
  // Answers, returns and ends that belong to no call, loan or step are ignored.
  Socket hand = b.raw();
  write_text(hand, bytes_of({FrameKind::answer, 0, 0, 77, "x", {}}) +
                       bytes_of({FrameKind::give_back, 0, 0, 9, {}, {}}) +
                       bytes_of({FrameKind::done, 0, 3, 0, std::string(8, '\0'), {counting(3)}}));
  CHECK_EQUAL(wait_for(call(*a.task, peer, "echo")).second, "p");
  wait_until([&] { return b.task->connections().size() == 2; });
}

TEST(calls_that_are_not_answered_are_limited) {
  Limits limits;
  limits.calls = 10;
  Listener a("a"), b("b", limits);
  auto modest = a.task->connect(b.address(), kLong);
  Socket hand = b.raw();
  std::string call;
  Writer(call).text("wait");
  for (uint64_t i = 0; i < 10; ++i) write_text(hand, bytes_of({FrameKind::call, 0, 0, i, call, {}}));
  wait_until([&] { return b.num_waiting() == 10; });
  write_text(hand, bytes_of({FrameKind::call, 0, 0, 11, call, {}}));
  FrameHeader header;
  do read_all(hand, &header, sizeof header, Clock::now() + kLong);
  while (header.kind == static_cast<uint8_t>(FrameKind::heartbeat));
  CHECK_EQUAL(int{header.kind}, static_cast<int>(FrameKind::answer));
  CHECK_EQUAL(int{header.flags}, 1);
  CHECK_EQUAL(header.number, 11u);
  for (int i = 0; i < 30; ++i) CHECK_EQUAL(wait_for(::call(*a.task, modest, "echo")).second, "p");
  for (Task::Answer& answer : b.waiting) answer(std::nullopt, "");
}

TEST(a_peer_that_does_not_read_that_its_calls_are_refused_loses_its_connection) {
  Limits limits;
  limits.calls = 0;
  Listener b("b", limits);
  Socket hand = b.raw();
  std::string calls, method;
  Writer(method).text("echo");
  for (uint64_t i = 0; i < 1000; ++i) calls += bytes_of({FrameKind::call, 0, 0, i, method, {}});
  wait_until([&] {
    ssize_t sent = send(hand.fd(), calls.data(), calls.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return (sent < 0 && errno != EAGAIN) || b.task->connections().empty();
  });
}

// A step that ends when it is told to.
struct Endless : Runnable {
  void start(int64_t, std::vector<Tensor>, StepOptions, std::shared_ptr<Connection>, Done done) override {
    std::lock_guard lock(mutex);
    running.push_back(std::move(done));
  }
  std::mutex mutex;
  std::vector<Done> running;
};

TEST(steps_that_one_peer_has_started_are_limited) {
  Limits limits;
  limits.steps = 3;
  Listener b("b", limits);
  auto endless = std::make_shared<Endless>();
  const uint64_t number = b.task->add(endless);
  Socket hand = b.raw(), other = b.raw();
  auto started = [&](const Socket& socket, uint64_t step) {
    write_text(socket, bytes_of({FrameKind::run, 0, step, number, {}, {}}));
  };
  auto end_of = [&](const Socket& socket) {
    FrameHeader header;
    do read_all(socket, &header, sizeof header, Clock::now() + kLong);
    while (header.kind == static_cast<uint8_t>(FrameKind::heartbeat));
    std::string body(header.length, '\0');
    read_all(socket, body.data(), body.size(), Clock::now() + kLong);
    return std::pair(header.step, int{header.flags});
  };
  for (uint64_t step = 1; step <= 4; ++step) started(hand, step);
  CHECK((end_of(hand) == std::pair<uint64_t, int>(4, 1)));
  started(other, 5);
  wait_until([&] {
    std::lock_guard lock(endless->mutex);
    return endless->running.size() == 4;
  });
  endless->running[0]({});
  CHECK_EQUAL(end_of(hand).second, 0);
  started(hand, 6);
  wait_until([&] {
    std::lock_guard lock(endless->mutex);
    return endless->running.size() == 5;
  });
  for (size_t i = 1; i < 5; ++i) endless->running[i]({});
}

TEST(connections_that_peers_open_are_limited) {
  Limits limits;
  limits.connections = 5;
  Listener b("b", limits);
  std::vector<Socket> open;
  for (int i = 0; i < 5; ++i) open.push_back(b.raw());
  wait_until([&] { return b.task->connections().size() == 5; });
  CHECK(is_closed(b.raw()));
  open.clear();
  wait_until([&] { return b.task->connections().empty(); });
  open.push_back(b.raw());
  wait_until([&] { return b.task->connections().size() == 1; });
}

TEST(silent_callers_do_not_keep_others_out) {
  Listener a("a"), b("b");
  std::vector<Socket> silent;
  for (int i = 0; i < 200; ++i) {
    silent.push_back(connect_tcp("localhost", b.port, Clock::now() + kLong));
    send(silent.back().fd(), "thal", static_cast<size_t>(i % 5), MSG_NOSIGNAL);
  }
  auto peer = a.task->connect(b.address(), kLong, true);
  CHECK_EQUAL(wait_for(call(*a.task, peer, "echo")).second, "p");
  // All but the last ones have been hung up on.
  for (int i = 0; i < 100; ++i) CHECK(is_closed(silent[i]));
}

TEST(a_task_needs_some_patience) { CHECK_FAILS(Code::invalid_argument, "at least 60", Listener("a", {}, "", 5ms)); }

}  // namespace
