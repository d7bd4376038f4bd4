// Connections: order, losses, backlogs, and tensors that are lent over them.
#include <future>

#include "sockets.h"

namespace {

using namespace native_tests;

// Two ends of a connection in this process.
struct Pair {
  explicit Pair(bool shares = false, Limits limits = {}) {
    auto [one, other] = socket_pair();
    a = Connection::make(std::move(one), greeting("a", shares), owner_a, limits);
    b = Connection::make(std::move(other), greeting("b", shares), owner_b, limits);
  }
  static Greeting greeting(const std::string& task, bool shares) {
    return {{"c", task, 1}, shares ? std::make_shared<PeerArena>(dup(SharedArena::get()->reading_fd())) : nullptr};
  }
  Pair& start() {
    a->start();
    b->start();
    return *this;
  }
  ~Pair() {
    a->close(Error(Code::cancelled, "the test has ended"));
    b->close(Error(Code::cancelled, "the test has ended"));
  }
  Recorder owner_a, owner_b;
  std::shared_ptr<Connection> a, b;
};

Frame numbered(uint64_t number, std::vector<Tensor> tensors = {}) {
  return {FrameKind::tensor, 0, 0, number, "body", std::move(tensors)};
}

TEST(frames_arrive_in_order_whatever_their_size) {
  Pair pair;
  pair.start();
  for (uint64_t i = 0; i < 2000; ++i) pair.a->send(numbered(i, {counting(i % 7 == 0 ? 20000 : i % 3)}));
  pair.owner_b.wait_for_frames(2000);
  for (uint64_t i = 0; i < 2000; ++i) {
    CHECK_EQUAL(pair.owner_b.frames[i].number, i);
    check_same(pair.owner_b.frames[i].tensors[0], counting(i % 7 == 0 ? 20000 : i % 3));
  }
  CHECK_EQUAL(pair.a->bytes_sent(), pair.b->bytes_received());
  CHECK_EQUAL(pair.a->backlog(), 0u);
}

TEST(frames_of_several_threads_are_not_mixed) {
  Pair pair;
  pair.start();
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 300; ++i) pair.a->send(numbered(t << 32 | i, {counting(5000)}));
    });
  for (std::thread& each : threads) each.join();
  pair.owner_b.wait_for_frames(1200);
  uint64_t next[4] = {};
  for (const Frame& frame : pair.owner_b.frames) {
    CHECK_EQUAL(frame.number & 0xffffffff, next[frame.number >> 32]++);
    check_same(frame.tensors[0], counting(5000));
  }
}

TEST(frames_that_were_sent_before_the_start_arrive) {
  Pair pair;
  for (uint64_t i = 0; i < 50; ++i) pair.a->send(numbered(i, {counting(20000)}));
  CHECK(pair.a->backlog() > 0);
  pair.start();
  pair.owner_b.wait_for_frames(50);
}

TEST(frames_that_nobody_has_read_yet_are_a_sign_of_life) {
  Pair pair;
  CHECK(!pair.b->has_unread());
  pair.a->send(numbered(1));
  CHECK(pair.b->has_unread());
  pair.start();
  pair.owner_b.wait_for_frames(1);
  CHECK(!pair.b->has_unread());
  pair.b->close(Error(Code::cancelled, "closed"));
  CHECK(!pair.b->has_unread());
}

TEST(heartbeats_are_not_the_owners_business) {
  Pair pair;
  pair.start();
  pair.a->send({FrameKind::heartbeat, 0, 0, 0, {}, {}});
  pair.a->send(numbered(1));
  pair.owner_b.wait_for_frames(1);
  CHECK_EQUAL(pair.owner_b.frames[0].number, 1u);
}

TEST(a_loss_is_told_once_to_each_side_and_then_nothing_can_be_sent) {
  Pair pair;
  pair.start();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&, i] { pair.a->close(Error(Code::aborted, cat("reason ", i))); });
  for (std::thread& each : threads) each.join();
  pair.owner_b.wait_for_loss();
  CHECK_EQUAL(pair.owner_a.losses.size(), 1u);
  CHECK_EQUAL(pair.owner_b.losses.size(), 1u);
  CHECK(pair.a->is_lost() && pair.b->is_lost());
  CHECK_FAILS(Code::aborted, pair.owner_a.losses[0].message(), pair.a->send(numbered(1)));
  CHECK_FAILS(Code::unavailable, "task 'b'", pair.b->send(numbered(1)));
  CHECK_EQUAL(pair.a->why_lost()->message(), pair.owner_a.losses[0].message());
}

TEST(a_connection_that_was_closed_before_its_start_stays_closed) {
  Pair pair;
  pair.a->close(Error(Code::cancelled, "early"));
  pair.start();
  pair.owner_b.wait_for_loss();
  CHECK_EQUAL(pair.owner_a.losses.size(), 1u);
}

TEST(closing_and_starting_at_once_is_safe) {
  for (int i = 0; i < 200; ++i) {
    Pair pair;
    std::thread closing([&] { pair.a->close(Error(Code::cancelled, "now")); });
    pair.start();
    closing.join();
    pair.owner_b.wait_for_loss();
  }
}

TEST(an_owner_that_throws_ends_the_connection) {
  Pair pair;
  pair.owner_b.on_frame = [](auto&, Frame) { fail(Code::resource_exhausted, "too much"); };
  pair.start();
  pair.a->send(numbered(1));
  pair.owner_b.wait_for_loss();
  pair.owner_a.wait_for_loss();
  CHECK(pair.owner_b.losses[0].code() == Code::resource_exhausted);
}

TEST(garbage_ends_the_connection) {
  auto [hand, other] = socket_pair();
  Recorder owner;
  auto connection = Connection::make(std::move(other), Pair::greeting("x", false), owner);
  connection->start();
  write_text(hand, std::string(100, '\xee'));
  owner.wait_for_loss();
  CHECK(owner.losses[0].code() == Code::invalid_argument);
}

TEST(a_peer_that_does_not_read_loses_the_connection_at_the_limit) {
  Limits limits;
  limits.backlog = 4 << 20;
  Pair pair(false, limits);
  pair.a->start();
  // A single frame may be larger.
  pair.a->send(numbered(0, {counting(2 << 20)}));
  CHECK_EQUAL(pair.owner_a.losses.size(), 0u);
  auto send_much = [&] {
    for (int i = 0; i < 20; ++i) pair.a->send(numbered(1, {counting(1 << 18)}));
  };
  CHECK_FAILS(Code::resource_exhausted, "does not read", send_much());
  CHECK_EQUAL(pair.owner_a.losses.size(), 1u);
}

TEST(a_backlog_is_written_when_the_peer_reads) {
  Pair pair;
  pair.a->start();
  for (uint64_t i = 0; i < 100; ++i) pair.a->send(numbered(i, {counting(100000)}));
  CHECK(pair.a->backlog() > (20u << 20));
  pair.b->start();
  pair.owner_b.wait_for_frames(100);
  wait_until([&] { return pair.a->backlog() == 0; });
}

TEST(a_claimed_connection_is_read_by_whoever_claimed_it) {
  Pair pair;
  pair.start();
  CHECK(pair.b->claim());
  CHECK(!pair.b->claim());
  CHECK(Connection::num_claimed() >= 1);
  pair.a->send(numbered(1));
  std::this_thread::sleep_for(30ms);
  CHECK_EQUAL(pair.owner_b.num_frames(), 0u);
  CHECK(pair.b->read_claimed(0));
  CHECK_EQUAL(pair.owner_b.num_frames(), 1u);
  CHECK(pair.b->read_claimed(0));  // There is nothing to read.
  pair.a->send(numbered(2));
  pair.b->release();
  pair.owner_b.wait_for_frames(2);
  wait_until([] { return Connection::num_claimed() == 0; });
  CHECK(!pair.b->read_claimed(0));
}

TEST(claims_that_come_and_go_lose_and_reorder_nothing) {
  Pair pair;
  pair.start();
  std::atomic<bool> ended{false};
  auto claim = [&] {
    while (!ended) {
      if (!pair.b->claim()) continue;
      for (int i = 0; i < 20 && pair.b->read_claimed(0); ++i) std::this_thread::yield();
      pair.b->release();
    }
  };
  std::thread one(claim), other(claim);
  for (uint64_t i = 0; i < 3000; ++i) {
    pair.a->send(numbered(i, {counting(i % 5 == 0 ? 3000 : 1)}));
    if (i % 50 == 0) std::this_thread::sleep_for(200us);
  }
  pair.owner_b.wait_for_frames(3000);
  ended = true;
  one.join();
  other.join();
  for (uint64_t i = 0; i < 3000; ++i) CHECK_EQUAL(pair.owner_b.frames[i].number, i);
  wait_until([] { return Connection::num_claimed() == 0; });
}

TEST(a_lost_connection_cannot_be_claimed) {
  Pair pair;
  pair.start();
  CHECK(pair.b->claim());
  pair.a->close(Error(Code::cancelled, "the test has ended"));
  while (pair.b->read_claimed(0)) std::this_thread::sleep_for(1ms);
  pair.owner_b.wait_for_loss();
  pair.b->release();
  CHECK(!pair.b->claim());
  wait_until([] { return Connection::num_claimed() == 0; });
}

TEST(large_tensors_are_lent_and_given_back) {
  Pair pair(true);
  pair.start();
  const int64_t sent = pair.a->bytes_sent();
  pair.a->send(numbered(1, {counting(1 << 20), counting(4)}));
  pair.owner_b.wait_for_frames(1);
  CHECK(pair.a->bytes_sent() - sent < 1000);
  CHECK_EQUAL(pair.a->loans(), 1u);
  check_same(pair.owner_b.frames[0].tensors[0], counting(1 << 20));
  CHECK(pair.owner_b.frames[0].tensors[0].raw() != nullptr);
  pair.owner_b.frames.clear();
  wait_until([&] { return pair.a->loans() == 0; });
}

// A tensor that goes back where it came from is given back when the frame has been written.
TEST(a_borrowed_tensor_can_be_sent_back_to_its_lender) {
  Pair pair(true);
  pair.owner_b.on_frame = [](const std::shared_ptr<Connection>& from, Frame frame) { from->send(std::move(frame)); };
  pair.start();
  for (uint64_t i = 0; i < 50; ++i) pair.a->send(numbered(i, {counting(20000)}));
  pair.owner_a.wait_for_frames(50);
  for (const Frame& frame : pair.owner_a.frames) check_same(frame.tensors[0], counting(20000));
  pair.owner_a.frames.clear();
  wait_until([&] { return pair.a->loans() == 0 && pair.b->loans() == 0; });
}

TEST(a_frame_that_cannot_be_sent_lends_nothing) {
  Pair pair(true);
  pair.start();
  CHECK_FAILS(Code::invalid_argument, "belongs to its task",
              pair.a->send(numbered(1, {counting(20000), Tensor(DType::resource, Shape{})})));
  CHECK_EQUAL(pair.a->loans(), 0u);
  pair.a->send(numbered(2));
  pair.owner_b.wait_for_frames(1);
}

TEST(a_loss_ends_loans_and_borrowed_tensors_stay_readable) {
  const int64_t taken = SharedArena::get()->bytes_taken();
  Pair pair(true);
  pair.start();
  pair.a->send(numbered(1, {counting(20000)}));
  pair.owner_b.wait_for_frames(1);
  pair.a->close(Error(Code::unavailable, "gone"));
  pair.owner_b.wait_for_loss();
  CHECK_EQUAL(pair.a->loans(), 0u);
  // For a while: the peer may still read.
  CHECK(SharedArena::get()->bytes_taken() > taken);
  check_same(pair.owner_b.frames[0].tensors[0], counting(20000));
}

}  // namespace
