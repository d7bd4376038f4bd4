// JointStep: transfers with and without links, dead tokens, errors in one part, abort, step numbers.
#include "executor/joint_step.h"

#include "check.h"
#include "graphs.h"

namespace {

using namespace native_tests;

std::vector<Tensor> run(const std::vector<JointStep::Part>& parts, std::vector<Tensor> feeds, size_t num_fetches,
                        int64_t id = 0) {
  return std::make_shared<JointStep>(parts, id)->run(feeds, num_fetches);
}

TEST(a_value_goes_there_and_back) {
  for (bool linked : {true, false}) {
    Two two;
    const int32_t there = two.to_b({two.a.plus({two.a.feed(), 0}, 1), 0}, "x");
    const int32_t back = two.to_a({two.b.plus({there, 0}, 10), 0}, "y");
    const int32_t result = two.a.plus({back, 0}, 100);
    auto parts = two.parts({{result, 0}}, {{there, 0}}, linked);
    CHECK_EQUAL(parts[0].plan->num_arrivals() + parts[1].plan->num_arrivals(), linked ? 2 : 0);
    for (int64_t i = 0; i < 100; ++i) {
      auto fetched = run(parts, {number(i)}, 2);
      CHECK_EQUAL(value_of(fetched[0]), i + 111);
      CHECK_EQUAL(value_of(fetched[1]), i + 1);
    }
  }
}

TEST(only_transfers_that_agree_are_linked) {
  Two two;
  const int32_t x = two.a.constant(1);
  two.a.send({x, 0}, "x", two.b.device->name);
  two.b.recv("y", two.a.device->name);
  auto other = two.b.recv("x", two.a.device->name);
  two.b.specs[other].def.attrs["send_device_incarnation"] = int64_t{12345};  // of a device that is gone
  CHECK_EQUAL(two.parts({}, {})[1].plan->num_arrivals(), 0);
}

TEST(a_part_that_was_planned_for_another_incarnation_is_refused) {
  Two two;
  const int32_t send = two.a.send({two.a.constant(1), 0}, "x", two.b.device->name);
  auto& attrs = two.a.specs[send].def.attrs;
  attrs["send_device_incarnation"] = static_cast<int64_t>(two.a.device->incarnation);
  two.a.plan();
  attrs["send_device_incarnation"] = static_cast<int64_t>(two.a.device->incarnation + 1);
  CHECK_FAILS(Code::aborted, "another incarnation", two.a.plan());
  CHECK(two.a.device->incarnation != 0);
  CHECK(two.a.device->incarnation != two.b.device->incarnation);
  CHECK_EQUAL(cpu(0)->incarnation, two.a.device->incarnation);
}

TEST(a_dead_token_crosses_devices) {
  for (bool linked : {true, false}) {
    Two two;
    const int32_t x = two.a.feed();
    const int32_t branch = two.a.switch_({x, 0}, {two.a.below({x, 0}, 10), 0});
    const int32_t received = two.to_b({two.a.plus({branch, 1}, 1), 0}, "small");
    const int32_t other = two.to_b({two.a.plus({branch, 0}, 1000), 0}, "large");
    for (int32_t at : {received, other}) two.b.specs[at].def.attrs["_maybe_dead"] = true;
    const int32_t merge = two.b.merge({{two.b.plus({received, 0}, 10), 0}, {other, 0}});
    auto parts = two.parts({}, {{merge, 0}}, linked);
    CHECK_EQUAL(value_of(run(parts, {number(5)}, 1)[0]), 16);
    CHECK_EQUAL(value_of(run(parts, {number(50)}, 1)[0]), 1050);
  }
}

TEST(a_loop_sends_a_value_in_every_iteration) {
  // Both devices have the loop: the first decides and sends, the second receives the decisions and the values.
  Two two;
  const std::string to = two.b.device->name, from = two.a.device->name;
  auto loop = [&](Graph& graph, int32_t start, const std::function<int32_t(Graph::Edge)>& predicate,
                  const std::function<int32_t(Graph::Edge, int32_t)>& body) {
    const int32_t enter = graph.enter({start, 0}, "loop");
    const int32_t merge = graph.merge({{enter, 0}, {enter, 0}});
    const int32_t condition = graph.pass("LoopCond", {predicate({merge, 0}), 0});
    const int32_t branch = graph.switch_({merge, 0}, {condition, 0});
    const int32_t next = graph.pass("NextIteration", {body({branch, 1}, merge), 0});
    graph.specs[merge].inputs[1] = {next, 0};
    return graph.pass("Exit", {branch, 0});
  };
  loop(
      two.a, two.a.constant(0),
      [&](Graph::Edge x) {
        const int32_t go_on = two.a.below(x, 20);
        two.a.send({go_on, 0}, "go_on", to);
        return go_on;
      },
      [&](Graph::Edge x, int32_t) {
        const int32_t next = two.a.plus(x, 1);
        two.a.send({next, 0}, "x", to);
        return next;
      });
  const int32_t sum = loop(
      two.b, two.b.constant(0),
      [&](Graph::Edge x) {
        const int32_t got = two.b.recv("go_on", from, {x.first});
        two.b.specs[got].def.output_dtypes = {DType::boolean};
        return got;
      },
      [&](Graph::Edge x, int32_t) {
        const int32_t got = two.b.recv("x", from, {two.b.pass("Identity", x)});
        two.b.kernels[two.b.specs[got].controls[0]] =
            std::make_shared<Computing>([](Context& ctx) { ctx.set_output(0, ctx.take_input(0)); });
        return two.b.compute({x, {got, 0}}, [](Context& ctx) {
          ctx.set_output(0, number(value_of(ctx.input(0)) + value_of(ctx.input(1))));
        });
      });
  auto parts = two.parts({}, {{sum, 0}});
  CHECK_EQUAL(parts[1].plan->num_arrivals(), 0);  // Those in loops meet in the rendezvous.
  for (int i = 0; i < 20; ++i) CHECK_EQUAL(value_of(run(parts, {}, 1)[0]), 210);
}

TEST(an_error_in_one_part_ends_the_others) {
  for (bool linked : {true, false}) {
    for (bool first : {true, false}) {
      Two two;
      Graph &failing = first ? two.a : two.b, &waiting = first ? two.b : two.a;
      const int32_t bad = failing.compute({}, [](Context&) { fail(Code::out_of_range, "broken"); });
      failing.send({bad, 0}, "never", waiting.device->name);
      const int32_t never = waiting.recv("never", failing.device->name);
      auto parts = first ? two.parts({}, {{never, 0}}, linked) : two.parts({{never, 0}}, {}, linked);
      for (int i = 0; i < 50; ++i) {
        try {
          run(parts, {}, 1);
          CHECK(false);
        } catch (const Error& error) {
          CHECK(error.code() == Code::out_of_range);
          CHECK_EQUAL(error.node(), failing.specs[bad].def.name);
        }
      }
    }
  }
}

TEST(abort_from_another_thread_ends_a_step_that_waits_for_a_value_that_never_comes) {
  for (bool linked : {true, false}) {
    Two two;
    std::promise<void> started;
    // No Send sends the value that b waits for; a waits for b, by a link or by the rendezvous.
    two.a.compute({}, [&started](Context& ctx) {
      ctx.set_output(0, number(1));
      started.set_value();
    });
    const int32_t never = two.b.recv("never", two.a.device->name);
    const int32_t back = two.to_a({never, 0}, "back");
    auto parts = two.parts({{back, 0}}, {}, linked);
    auto step = std::make_shared<JointStep>(parts);
    std::thread other([&] {
      started.get_future().wait();
      step->abort(Error(Code::deadline_exceeded, "too slow"));
      step->abort(Error(Code::internal, "second"));
    });
    CHECK_FAILS(Code::deadline_exceeded, "too slow", step->run({}, 1));
    other.join();
  }
}

TEST(abort_races_with_the_step_and_nothing_hangs) {
  Two two;
  int32_t x = two.to_b({two.a.feed(), 0}, "x0");
  for (int i = 1; i < 10; ++i) {
    const int32_t back = two.to_a({x, 0}, cat("y", i));
    x = two.to_b({two.a.plus({back, 0}, 1), 0}, cat("x", i));
  }
  auto parts = two.parts({}, {{x, 0}});
  int ended = 0, aborted = 0;
  for (int round = 0; round < 300; ++round) {
    auto step = std::make_shared<JointStep>(parts);
    std::thread other([&, round] {
      if (round % 2 == 1) std::this_thread::sleep_for(std::chrono::microseconds(round));
      step->abort(Error(Code::cancelled, "enough"));
    });
    try {
      CHECK_EQUAL(value_of(step->run({number(1)}, 1)[0]), 10);
      ++ended;
    } catch (const Error& error) {
      CHECK(error.code() == Code::cancelled);
      ++aborted;
    }
    other.join();
  }
  CHECK_EQUAL(ended + aborted, 300);
}

TEST(sending_after_an_abort_fails_the_sender) {
  // The rendezvous of a step that another task has given up.
  Two two;
  two.a.send({two.a.constant(1), 0}, "x", two.b.device->name);
  const int32_t x = two.b.recv("x", two.a.device->name);
  auto parts = two.parts({}, {{x, 0}}, false);
  auto rendezvous = std::make_shared<LocalRendezvous>(9);
  rendezvous->abort(Error(Code::unavailable, "the peer is gone"));
  auto step = std::make_shared<JointStep>(parts, 9, rendezvous);
  CHECK_FAILS(Code::unavailable, "the peer is gone", step->run({}, 1));
}

TEST(all_parts_and_the_rendezvous_have_the_number_of_the_step) {
  Two two;
  auto tell = [](Context& ctx) { ctx.set_output(0, number(ctx.step().id())); };
  const int32_t in_a = two.a.compute({}, tell), in_b = two.b.compute({}, tell);
  const int32_t of_rendezvous =
      two.b.compute({}, [](Context& ctx) { ctx.set_output(0, number(ctx.step().rendezvous()->step())); });
  auto parts = two.parts({{in_a, 0}}, {{in_b, 0}, {of_rendezvous, 0}});
  for (const Tensor& id : run(parts, {}, 3, 4711)) CHECK_EQUAL(value_of(id), 4711);
  auto drawn = run(parts, {}, 3);
  CHECK(value_of(drawn[0]) > 0);
  CHECK_EQUAL(value_of(drawn[0]), value_of(drawn[1]));
  CHECK_EQUAL(value_of(drawn[0]), value_of(drawn[2]));
}

TEST(a_started_step_reports_its_end_once) {
  Two two;
  const int32_t there = two.to_b({two.a.constant(1), 0}, "x");
  two.b.plus({there, 0}, 1);
  auto parts = two.parts({}, {});
  for (int round = 0; round < 100; ++round) {
    std::promise<bool> ended;
    auto step = std::make_shared<JointStep>(parts);
    step->start({}, 0, [&](std::optional<Error> error, std::vector<Tensor>) { ended.set_value(!error); });
    CHECK(ended.get_future().get());
  }
}

TEST(steps_of_one_plan_run_at_the_same_time) {
  Two two;
  const int32_t there = two.to_b({two.a.plus({two.a.feed(), 0}, 1), 0}, "x");
  const int32_t back = two.to_a({two.b.plus({there, 0}, 1), 0}, "y");
  auto parts = two.parts({{back, 0}}, {});
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) wrong += value_of(run(parts, {number(t * 1000 + i)}, 1)[0]) != t * 1000 + i + 2;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK_EQUAL(wrong.load(), 0);
}

}  // namespace
