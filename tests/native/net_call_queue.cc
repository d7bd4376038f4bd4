// The queue of calls: shares of hosts and connections, turns, and connections that are lost.
#include <condition_variable>
#include <set>

#include "net/call_queue.h"
#include "sockets.h"

namespace {

using namespace native_tests;

// Calls that run until they are let go.
struct Calls {
  // A call of a connection that is at a host; its number is its place among all of the connection.
  void add(uint64_t connection, const std::string& host = "a") {
    std::lock_guard lock(mutex);
    const int number = ++added[connection];
    queue.add(connection, host, [this, connection, number] {
      std::unique_lock own(mutex);
      begun.emplace_back(connection, number);
      ++running[connection];
      changed.wait(own, [&] { return open > 0; });
      --open;
      --running[connection];
      ++ended;
    });
  }
  void let_go(int count) {
    {
      std::lock_guard lock(mutex);
      open += count;
    }
    changed.notify_all();
  }
  int num_running(uint64_t connection) {
    std::lock_guard lock(mutex);
    return running[connection];
  }
  void wait_for_begun(size_t count) {
    wait_until([&] {
      std::lock_guard lock(mutex);
      return begun.size() == count;
    });
  }
  // Lets all of them end.
  ~Calls() {
    let_go(1 << 20);
    wait_until([&] { return queue.size() == 0; });
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::unordered_map<uint64_t, int> added, running;
  std::vector<std::pair<uint64_t, int>> begun;
  int open = 0, ended = 0;
  ThreadPool pool{8};
  CallQueue queue{pool, {8, 6, 4}};
};

TEST(a_connection_has_its_share_of_the_threads_and_no_more) {
  Calls calls;
  for (int i = 0; i < 100; ++i) calls.add(1);
  calls.wait_for_begun(4);
  CHECK_EQUAL(calls.queue.size(), 100u);
  calls.add(2, "b");
  calls.wait_for_begun(5);
  CHECK_EQUAL(calls.num_running(1), 4);
  CHECK_EQUAL(calls.num_running(2), 1);
}

TEST(connections_of_one_host_leave_threads_to_others) {
  Calls calls;
  for (uint64_t connection = 1; connection <= 50; ++connection)
    for (int i = 0; i < 5; ++i) calls.add(connection, "a");
  calls.wait_for_begun(6);
  calls.add(100, "b");
  calls.add(101, "c");
  calls.wait_for_begun(8);
  CHECK_EQUAL(calls.num_running(100), 1);
  CHECK_EQUAL(calls.num_running(101), 1);
}

TEST(connections_take_turns_and_each_keeps_its_order) {
  Calls calls;
  for (int i = 0; i < 20; ++i) calls.add(1);
  for (int i = 0; i < 20; ++i) calls.add(2);
  for (size_t ended = 0; ended < 30; ++ended) {
    calls.wait_for_begun(6 + ended);
    calls.let_go(1);
  }
  calls.wait_for_begun(36);
  std::lock_guard lock(calls.mutex);
  std::unordered_map<uint64_t, std::set<int>> begun;
  for (auto [connection, number] : calls.begun) begun[connection].insert(number);
  for (uint64_t connection : {1, 2}) {
    CHECK(begun[connection].size() >= 15);
    CHECK_EQUAL(*begun[connection].rbegin(), static_cast<int>(begun[connection].size()));  // None was left out.
  }
}

TEST(calls_of_a_lost_connection_that_have_not_begun_are_dropped) {
  Calls calls;
  auto held = std::make_shared<int>(1);
  for (int i = 0; i < 10; ++i) calls.add(1);
  calls.queue.add(1, "a", [held] {});
  calls.wait_for_begun(4);
  calls.queue.forget(1);
  calls.queue.forget(1);
  calls.queue.forget(7);
  CHECK_EQUAL(calls.queue.size(), 4u);
  CHECK_EQUAL(held.use_count(), 1);
  calls.add(2);
  calls.wait_for_begun(5);
  calls.let_go(5);
  wait_until([&] {
    std::lock_guard lock(calls.mutex);
    return calls.ended == 5;
  });
  calls.add(1);  // A number is not used again, but a call may be handled after the loss.
  calls.wait_for_begun(6);
}

}  // namespace
