// The table of steps: early tensors and their limits, cancellation, loss, time.
#include "executor/rendezvous_key.h"
#include "lists.h"
#include "net/step_table.h"

namespace {

using namespace native_tests;

const std::string kTask = "/job:ps/replica:0/task:0";
const RendezvousKey kKey("/job:w/replica:0/task:0/device:CPU:0", 1, kTask + "/device:CPU:0", "x:0");

struct FakeRun : Run {
  void abort(const Error& error) override { errors.push_back(error); }
  bool is_started_by(const Connection* peer) const override { return peer == starter; }
  void part_done(const std::shared_ptr<Connection>&, StepResult) override {}
  void lost(const std::shared_ptr<Connection>&, const Error&) override {}
  std::vector<Error> errors;
  const Connection* starter = nullptr;
};

struct Table : StepTable {
  explicit Table(Limits limits = {}) : StepTable(kTask, limits) {}
  std::shared_ptr<Connection> peer() {
    auto [one, other] = socket_pair();
    return Connection::make(std::move(one), {{"c", "w", 1}, nullptr}, owner);
  }
  std::shared_ptr<StepRendezvous> start(int64_t id, std::shared_ptr<Run> run = std::make_shared<FakeRun>()) {
    return begin(id, std::move(run), std::make_shared<const Routes>(Routes({})));
  }
  void push(const std::shared_ptr<Connection>& from, int64_t id, Tensor value = counting(4)) {
    deliver(from, id, kKey.hash(), {}, std::move(value));
  }
  Recorder owner;
};

TEST(a_tensor_may_come_before_or_after_the_step) {
  Table table;
  table.push(table.peer(), 1);
  auto early = table.start(1), late = table.start(2);
  table.push(table.peer(), 2);
  for (auto& rendezvous : {early, late}) {
    Tensor value;
    CHECK(rendezvous->try_recv(kKey, {}, value));
    check_same(value, counting(4));
    CHECK(!rendezvous->try_recv(kKey, {}, value));
  }
  table.end(1, false);
  table.end(2, false);
  CHECK_EQUAL(table.size(), 0u);
}

TEST(a_number_is_used_by_one_run_at_a_time) {
  Table table;
  table.start(1);
  CHECK_FAILS(Code::already_exists, "running", table.start(1));
  table.end(1, false);
  table.start(1);
}

TEST(a_step_that_is_cancelled_before_it_starts_does_not_start) {
  Table table;
  table.cancel(1, Error(Code::cancelled, "no"));
  table.push(table.peer(), 2);
  table.cancel(2, Error(Code::cancelled, "no"));
  CHECK_EQUAL(table.size(), 0u);
  for (int64_t id : {1, 2}) CHECK_FAILS(Code::aborted, "cancelled", table.start(id));
  table.push(table.peer(), 1);
  CHECK_EQUAL(table.size(), 0u);
}

TEST(a_run_is_cancelled_by_its_starter_or_this_task_only) {
  Table table;
  auto starter = table.peer(), other = table.peer();
  auto run = std::make_shared<FakeRun>();
  run->starter = starter.get();
  table.start(1, run);
  table.cancel(1, Error(Code::cancelled, "other"), other.get());
  CHECK_EQUAL(run->errors.size(), 0u);
  table.cancel(1, Error(Code::cancelled, "starter"), starter.get());
  table.cancel(1, Error(Code::cancelled, "task"));
  CHECK_EQUAL(run->errors.size(), 2u);
}

TEST(stragglers_of_a_failed_step_are_dropped) {
  Table table;
  table.start(1);
  table.end(1, true);
  table.push(table.peer(), 1);
  CHECK_EQUAL(table.size(), 0u);
}

TEST(numbers_of_failed_steps_are_forgotten_in_the_end) {
  Table table;
  for (int64_t id = 0; id < 30000; ++id) table.cancel(id, Error(Code::cancelled, "no"));
  table.start(0);
  CHECK_FAILS(Code::aborted, "cancelled", table.start(29999));
}

TEST(a_step_whose_early_tensors_went_with_their_sender_does_not_start) {
  Table table;
  auto gone = table.peer(), other = table.peer();
  table.push(gone, 1);
  table.push(other, 1);
  table.push(other, 2);
  table.push(gone, 3);
  table.start(3);
  table.forget(gone);
  CHECK_EQUAL(table.size(), 2u);
  CHECK_FAILS(Code::aborted, "lost a sender", table.start(1));
  table.start(2);
}

TEST(early_tensors_expire_and_running_steps_do_not) {
  Table table;
  table.push(table.peer(), 1);
  table.prepare(2);
  table.start(3);
  table.expire(Clock::now() + 30s);
  CHECK_EQUAL(table.size(), 3u);
  table.expire(Clock::now() + 61s);
  CHECK_EQUAL(table.size(), 1u);
  CHECK_FAILS(Code::aborted, "", table.start(1));
}

TEST(one_senders_early_steps_are_limited_and_others_are_not_concerned) {
  Limits limits;
  limits.early_steps = 10;
  Table table(limits);
  auto greedy = table.peer(), modest = table.peer();
  for (int64_t id = 0; id < 10; ++id) table.push(greedy, id);
  CHECK_FAILS(Code::resource_exhausted, "10 steps", table.push(greedy, 10));
  for (int64_t id = 0; id < 10; ++id) table.push(modest, id + 100);
  table.push(greedy, 5);  // One more for a step that it has sent tensors for.
  table.start(0);
  table.push(greedy, 11);
  table.forget(greedy);
  for (int64_t id = 0; id < 10; ++id) table.push(table.peer(), id + 200);
}

TEST(one_senders_early_bytes_are_limited_whatever_they_are_made_of) {
  Limits limits;
  limits.early_bytes = 1 << 20;
  Tensor strings(DType::string, Shape{});
  strings.strings()[0] = std::string(100000, 'x');
  for (const Tensor& tensor : {counting(25000), strings, Tensor(), Tensor(DType::float32, Shape{0}), large_lists(1)}) {
    Table table(limits);
    auto greedy = table.peer();
    auto push_many = [&] {
      for (int i = 0; i < 5000; ++i) table.push(greedy, 1, tensor);
    };
    CHECK_FAILS(Code::resource_exhausted, "bytes", push_many());
    table.push(table.peer(), 2, tensor);
    table.start(1);
    table.push(greedy, 2, tensor);
    table.push(greedy, 1, tensor);
  }
}

TEST(what_a_sender_sends_to_running_steps_is_limited_until_it_is_taken) {
  Limits limits;
  limits.step_bytes = 1 << 20;
  Table table(limits);
  auto greedy = table.peer(), modest = table.peer();
  auto first = table.start(1), second = table.start(2);
  const Tensor tensor = counting(25000);
  for (int i = 0; i < 5; ++i) {
    table.push(greedy, 1, tensor);
    table.push(greedy, 2, tensor);
  }
  CHECK_FAILS(Code::resource_exhausted, "no step has taken", table.push(greedy, 1, tensor));
  table.push(modest, 1, tensor);
  // What is taken, or waited for, or was sent to a step that is over, does not count any more.
  Tensor value;
  CHECK(first->try_recv(kKey, {}, value));
  table.push(greedy, 1, tensor);
  CHECK_FAILS(Code::resource_exhausted, "no step has taken", table.push(greedy, 2, tensor));
  int received = 0;
  auto third = table.start(3);
  for (int i = 0; i < 20; ++i) third->recv(kKey, {}, [&](std::optional<Error> error, Tensor) { received += !error; });
  for (int i = 0; i < 20; ++i) table.push(greedy, 3, tensor);
  CHECK_EQUAL(received, 20);
  second->abort(Error(Code::cancelled, "over"));
  table.push(greedy, 1, tensor);
}

}  // namespace
