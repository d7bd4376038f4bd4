// Rendezvous keys and the local rendezvous: order, dead tokens, waiting, abort, hostile text.
#include <future>
#include <thread>

#include "check.h"
#include "executor/local_rendezvous.h"
#include "graphs.h"

namespace {

using namespace native_tests;

const std::string kA = "/job:worker/replica:0/task:1/device:CPU:0", kB = "/job:ps/replica:0/task:0/device:CPU:0";
const RendezvousKey kKey(kA, 0x12ab, kB, "x:0");

// The report to a receiver.
struct Received {
  int calls = 0;
  std::optional<Error> error;
  Tensor value;
  Rendezvous::Receive callback() {
    return [this](std::optional<Error> e, Tensor v) {
      ++calls;
      error = std::move(e);
      value = std::move(v);
    };
  }
};

TEST(specified_hashes_have_the_published_values) {
  CHECK_EQUAL(fnv1a64(""), 0xcbf29ce484222325u);
  CHECK_EQUAL(fnv1a64("a"), 0xaf63dc4c8601ec8cu);
  CHECK_EQUAL(fnv1a64("foobar"), 0x85944171f73967e8u);
  // SplitMix64 seeded with 0 yields the finalizer of 0x9e3779b97f4a7c15 first.
  CHECK_EQUAL(combine64(1, uint64_t(-1)), 0xe220a8397b1dcdafu);
  CHECK(combine64(1, 2) != combine64(2, 1));
}

TEST(a_key_has_one_text_and_says_its_parts) {
  CHECK_EQUAL(kKey.name(), kA + ";00000000000012ab;" + kB + ";x:0");
  CHECK_EQUAL(kKey.source(), kA);
  CHECK_EQUAL(kKey.incarnation(), 0x12abu);
  CHECK_EQUAL(kKey.destination(), kB);
  CHECK_EQUAL(kKey.tensor(), "x:0");
  CHECK_EQUAL(kKey.hash(), fnv1a64(kKey.name()));
  CHECK_EQUAL(kKey.transfer({7, 3}), kKey.name() + ";7:3");
}

TEST(parsing_gives_back_what_was_written) {
  for (uint64_t incarnation : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
    for (FrameIteration at : {FrameIteration{}, FrameIteration{~uint64_t{0}, INT64_MAX}}) {
      const RendezvousKey key("", incarnation, kB, "feed:y:0");
      auto [parsed, where] = RendezvousKey::parse(key.transfer(at));
      CHECK(parsed == key);
      CHECK_EQUAL(parsed.incarnation(), incarnation);
      CHECK(where == at);
    }
  }
}

TEST(anything_but_the_one_spelling_is_refused) {
  const std::string good = kKey.transfer({7, 3});
  for (const std::string& bad : std::vector<std::string>{"",
                                                         ";",
                                                         ";;;;",
                                                         good + ";",
                                                         ";" + good,
                                                         kKey.name(),
                                                         kKey.name() + ";",
                                                         kKey.name() + ";7",
                                                         kKey.name() + ";7:",
                                                         kKey.name() + ";:3",
                                                         kKey.name() + ";-7:3",
                                                         kKey.name() + ";7:-3",
                                                         kKey.name() + ";07:3",
                                                         kKey.name() + ";7:03",
                                                         kKey.name() + ";+7:3",
                                                         kKey.name() + "; 7:3",
                                                         kKey.name() + ";7:3 ",
                                                         kKey.name() + ";7:3:4",
                                                         kKey.name() + ";18446744073709551616:0",
                                                         kKey.name() + ";0:9223372036854775808",
                                                         kA + ";12ab;" + kB + ";x:0;0:0",
                                                         kA + ";00000000000012AB;" + kB + ";x:0;0:0",
                                                         kA + ";0x000000000012ab;" + kB + ";x:0;0:0",
                                                         kA + ";00000000000012ab;" + kB + ";;0:0",
                                                         "cpu;00000000000012ab;" + kB + ";x:0;0:0",
                                                         kA + ";00000000000012ab;cpu;x:0;0:0",
                                                         std::string(size_t{1} << 20, 'x'),
                                                         std::string("\0;\n;", 4)}) {
    CHECK_FAILS(Code::invalid_argument, "is not a rendezvous key", RendezvousKey::parse(bad));
  }
  // No cut and no changed byte of a good key does harm; an accepted text is written as it was read.
  for (size_t i = 0; i < good.size(); ++i) {
    for (int byte : {0, 10, int{';'}, int{':'}, int{'9'}, int{'f'}, int{'F'}, 255}) {
      std::string changed = good;
      changed[i] = static_cast<char>(byte);
      try {
        auto [key, at] = RendezvousKey::parse(changed);
        CHECK_EQUAL(key.transfer(at), changed);
      } catch (const Error& error) {
        CHECK(error.code() == Code::invalid_argument);
        CHECK(error.message().size() < 300);
      }
    }
    CHECK_FAILS(Code::invalid_argument, "is not a rendezvous key", RendezvousKey::parse(good.substr(0, i)));
  }
}

TEST(names_that_would_be_ambiguous_make_no_key) {
  CHECK_FAILS(Code::invalid_argument, "';'", RendezvousKey(kA + ";", 1, kB, "x"));
  CHECK_FAILS(Code::invalid_argument, "';'", RendezvousKey(kA, 1, kB, "x;y"));
  CHECK_FAILS(Code::invalid_argument, "full name", RendezvousKey("CPU:0", 1, kB, "x"));
}

TEST(values_arrive_in_order_whichever_side_comes_first) {
  LocalRendezvous rendezvous(1);
  rendezvous.send(kKey, {}, number(1));
  rendezvous.send(kKey, {}, number(2));
  Received first, second, third, fourth;
  rendezvous.recv(kKey, {}, first.callback());
  Tensor value;
  CHECK(rendezvous.try_recv(kKey, {}, value));
  CHECK_EQUAL(value_of(first.value), 1);
  CHECK_EQUAL(value_of(value), 2);
  CHECK(!rendezvous.try_recv(kKey, {}, value));
  rendezvous.recv(kKey, {}, third.callback());
  rendezvous.recv(kKey, {}, fourth.callback());
  CHECK_EQUAL(third.calls, 0);
  rendezvous.send(kKey, {}, number(3));
  rendezvous.send(kKey, {}, number(4));
  CHECK_EQUAL(value_of(third.value), 3);
  CHECK_EQUAL(value_of(fourth.value), 4);
  CHECK_EQUAL(third.calls + fourth.calls, 2);
}

TEST(other_keys_frames_and_iterations_do_not_meet) {
  LocalRendezvous rendezvous(1);
  rendezvous.send(kKey, {5, 1}, number(1));
  Tensor value;
  CHECK(!rendezvous.try_recv(RendezvousKey(kA, 0x12ac, kB, "x:0"), {5, 1}, value));  // another incarnation
  CHECK(!rendezvous.try_recv(RendezvousKey(kB, 0x12ab, kA, "x:0"), {5, 1}, value));
  CHECK(!rendezvous.try_recv(kKey, {5, 2}, value));
  CHECK(!rendezvous.try_recv(kKey, {1, 5}, value));
  CHECK(!rendezvous.try_recv(kKey, {}, value));
  // Equal names are equal keys: this one was parsed.
  CHECK(rendezvous.try_recv(RendezvousKey::parse(kKey.transfer({5, 1})).first, {5, 1}, value));
}

TEST(a_dead_token_is_a_value) {
  LocalRendezvous rendezvous(1);
  Received received;
  rendezvous.recv(kKey, {}, received.callback());
  rendezvous.send(kKey, {}, Tensor());
  CHECK_EQUAL(received.calls, 1);
  CHECK(!received.error && !received.value.defined());
  rendezvous.send(kKey, {}, Tensor());
  Tensor value = number(1);
  CHECK(rendezvous.try_recv(kKey, {}, value));
  CHECK(!value.defined());
}

TEST(abort_fails_who_waits_and_who_comes_later_with_the_first_error) {
  LocalRendezvous rendezvous(1);
  Received waiting, later;
  rendezvous.recv(kKey, {}, waiting.callback());
  rendezvous.send(kKey, {1, 1}, number(1));
  rendezvous.abort(Error(Code::aborted, "first"));
  rendezvous.abort(Error(Code::internal, "second"));
  CHECK_EQUAL(waiting.calls, 1);
  CHECK(waiting.error->code() == Code::aborted);
  rendezvous.recv(kKey, {1, 1}, later.callback());
  CHECK(later.error->message() == "first");
  Tensor value;
  CHECK_FAILS(Code::aborted, "first", rendezvous.send(kKey, {}, number(1)));
  CHECK_FAILS(Code::aborted, "first", rendezvous.try_recv(kKey, {1, 1}, value));
}

TEST(a_callback_may_use_the_rendezvous) {
  LocalRendezvous rendezvous(1);
  Received received;
  rendezvous.recv(kKey, {}, [&](std::optional<Error>, Tensor value) {
    rendezvous.send(kKey, {1, 0}, std::move(value));
    rendezvous.recv(kKey, {1, 0}, received.callback());
    rendezvous.abort(Error(Code::aborted, "enough"));
  });
  rendezvous.send(kKey, {}, number(9));
  CHECK_EQUAL(value_of(received.value), 9);
}

TEST(many_threads_lose_and_double_nothing) {
  LocalRendezvous rendezvous(1);
  constexpr int kThreads = 4, kEach = 2000;
  std::atomic<int64_t> sum{0}, calls{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i)
        rendezvous.send(kKey, {static_cast<uint64_t>(i % 3), i % 5}, number(t * kEach + i));
    });
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i)
        rendezvous.recv(kKey, {static_cast<uint64_t>(i % 3), i % 5}, [&](std::optional<Error>, Tensor value) {
          sum += value_of(value);
          ++calls;
        });
    });
  }
  for (std::thread& thread : threads) thread.join();
  constexpr int64_t kAll = int64_t{kThreads} * kEach;
  CHECK_EQUAL(calls.load(), kAll);
  CHECK_EQUAL(sum.load(), kAll * (kAll - 1) / 2);
}

TEST(abort_races_with_receivers_and_every_callback_runs_once) {
  for (int round = 0; round < 200; ++round) {
    LocalRendezvous rendezvous(1);
    std::atomic<int> calls{0};
    std::thread receiver([&] {
      for (int i = 0; i < 10; ++i) rendezvous.recv(kKey, {0, i}, [&](std::optional<Error>, Tensor) { ++calls; });
    });
    rendezvous.abort(Error(Code::cancelled, "over"));
    receiver.join();
    CHECK_EQUAL(calls.load(), 10);
  }
}

}  // namespace
