// Teams: several threads that run the nodes of one step.
#include <chrono>
#include <set>

#include "check.h"
#include "executor/executor.h"
#include "graphs.h"
#include "teams.h"

namespace {

using namespace native_tests;

std::vector<Tensor> run(const std::shared_ptr<Plan>& plan, std::vector<Tensor> feeds = {}) {
  return std::make_shared<Executor>(plan)->run(feeds);
}

std::vector<Tensor> start_and_wait(const std::shared_ptr<Plan>& plan) {
  auto result = std::make_shared<std::promise<std::vector<Tensor>>>();
  auto executor = std::make_shared<Executor>(plan);
  executor->start({}, [result](std::optional<Error> error, std::vector<Tensor> fetched) {
    if (error) return result->set_exception(std::make_exception_ptr(*error));
    result->set_value(std::move(fetched));
  });
  return result->get_future().get();
}

std::shared_ptr<Plan> plan_of_meeting(Meeting& meeting, bool may_wait) {
  Graph graph;
  const int32_t a = graph.compute({}, meeting.kernel());
  const int32_t b = graph.compute({}, meeting.kernel());
  graph.specs[a].may_wait = graph.specs[b].may_wait = may_wait;
  return graph.plan({{a, 0}, {b, 0}}, 2);
}

TEST(independent_nodes_of_a_step_run_at_the_same_time) {
  Forced forced;
  Meeting meeting;
  auto plan = plan_of_meeting(meeting, false);
  for (int i = 0; i < 50; ++i) CHECK_EQUAL(value_of(run(plan)[1]), 1);
  CHECK_EQUAL(value_of(start_and_wait(plan)[0]), 1);
}

TEST(nodes_that_may_wait_for_each_other_do_so_without_measurements) {
  Meeting meeting;
  auto plan = plan_of_meeting(meeting, true);
  for (int i = 0; i < 50; ++i) CHECK_EQUAL(value_of(run(plan)[0]), 1);
  CHECK_EQUAL(value_of(start_and_wait(plan)[1]), 1);
}

TEST(a_step_of_one_thread_does_not_let_nodes_meet) {
  Graph graph;
  std::atomic<int> running{0}, most{0};
  auto kernel = [&](Context& ctx) {
    most = std::max(most.load(), ++running);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    --running;
    ctx.set_output(0, number(0));
  };
  std::vector<Graph::Edge> fetches;
  for (int i = 0; i < 8; ++i) fetches.push_back({graph.compute({}, kernel), 0});
  Forced forced;
  auto plan = graph.plan(fetches, 1);
  CHECK(!plan->pace().has_team());
  run(plan);
  CHECK_EQUAL(most.load(), 1);
}

TEST(measured_steps_get_a_team_only_if_several_nodes_take_long) {
  for (const bool wide : {true, false}) {
    Graph graph;
    auto slow = [](Context& ctx) {
      std::this_thread::sleep_for(std::chrono::microseconds(500));
      ctx.set_output(0, number(1));
    };
    std::vector<Graph::Edge> last;
    for (int i = 0; i < 4; ++i)
      last.push_back(
          {graph.compute(wide || last.empty() ? std::vector<Graph::Edge>{} : std::vector{last.back()}, slow), 0});
    auto plan = graph.plan(last, 4);
    for (int i = 0; i < 4; ++i) run(plan);
    CHECK_EQUAL(plan->pace().has_team(), wide);
  }
}

TEST(values_and_their_order_do_not_depend_on_the_team) {
  Forced forced;
  for (int round = 0; round < 20; ++round) {
    Graph graph;
    const int32_t x = graph.feed();
    std::vector<Graph::Edge> layer(5, {x, 0});
    uint32_t random = 77u + static_cast<uint32_t>(round);
    for (int depth = 0; depth < 12; ++depth) {
      std::vector<Graph::Edge> next;
      for (size_t i = 0; i < layer.size(); ++i) {
        random = random * 1664525u + 1013904223u;
        const auto other = layer[(random >> 16) % layer.size()];
        const int64_t factor = static_cast<int64_t>(i) + 2;
        next.push_back({graph.compute({layer[i], other},
                                      [factor](Context& ctx) {
                                        const auto sum = static_cast<uint64_t>(value_of(ctx.input(0))) *
                                                             static_cast<uint64_t>(factor) +
                                                         static_cast<uint64_t>(value_of(ctx.input(1)));
                                        ctx.set_output(0, number(static_cast<int64_t>(sum)));
                                      }),
                        0});
      }
      layer = next;
    }
    auto plan = graph.plan(layer);
    Pace::force(false);
    std::vector<int64_t> expected;
    for (const Tensor& value : run(plan, {number(3)})) expected.push_back(value_of(value));
    Pace::force(true);
    for (int i = 0; i < 5; ++i) {
      auto got = run(plan, {number(3)});
      for (size_t k = 0; k < expected.size(); ++k) CHECK_EQUAL(value_of(got[k]), expected[k]);
    }
  }
}

TEST(loops_overlap_their_iterations_in_a_team) {
  Forced forced;
  Graph graph;
  const int32_t zero = graph.constant(0);
  const int32_t enter = graph.enter({zero, 0}, "loop");
  const int32_t merge = graph.merge({{enter, 0}, {enter, 0}});
  const int32_t below = graph.below({merge, 0}, 30);
  const int32_t branch = graph.switch_({merge, 0}, {below, 0});
  const int32_t body = graph.plus({branch, 1}, 1);
  std::atomic<int> runs{0};
  graph.compute({{branch, 1}}, [&](Context& ctx) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    ++runs;
    ctx.set_output(0, number(0));
  });
  const int32_t next = graph.pass("NextIteration", {body, 0});
  graph.specs[merge].inputs[1] = {next, 0};
  const int32_t exit = graph.pass("Exit", {branch, 0});
  auto plan = graph.plan({{exit, 0}});
  for (int i = 0; i < 10; ++i) {
    runs = 0;
    CHECK_EQUAL(value_of(run(plan)[0]), 30);
    CHECK_EQUAL(runs.load(), 30);
  }
}

TEST(the_first_error_of_a_team_ends_the_step_and_names_its_node) {
  Forced forced;
  Graph graph;
  std::vector<Graph::Edge> fetches;
  int32_t bad = 0;
  for (int i = 0; i < 6; ++i) {
    const int32_t at = graph.compute({}, [i](Context& ctx) {
      if (i == 3) fail(Code::invalid_argument, "number three");
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      ctx.set_output(0, number(i));
    });
    if (i == 3) bad = at;
    fetches.push_back({graph.plus({at, 0}, 1), 0});
  }
  auto plan = graph.plan(fetches);
  for (int i = 0; i < 20; ++i) {
    try {
      run(plan);
      CHECK(false);
    } catch (const Error& error) {
      CHECK_EQUAL(error.message(), "number three");
      CHECK_EQUAL(error.node(), graph.specs[bad].def.name);
    }
  }
}

TEST(an_abort_from_outside_ends_a_team) {
  Forced forced;
  Graph graph;
  auto until_interrupted = [](Context& ctx) {
    while (!ctx.step().interrupted()) std::this_thread::sleep_for(std::chrono::microseconds(100));
    ctx.set_output(0, number(0));
  };
  std::vector<Graph::Edge> fetches;
  for (int i = 0; i < 4; ++i) fetches.push_back({graph.compute({}, until_interrupted), 0});
  auto plan = graph.plan(fetches);
  auto executor = std::make_shared<Executor>(plan);
  std::thread aborting([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    executor->abort(Error(Code::cancelled, "enough"));
  });
  try {
    executor->run({});
    CHECK(false);
  } catch (const Error& error) {
    CHECK_EQUAL(error.message(), "enough");
  }
  aborting.join();
}

TEST(asynchronous_kernels_and_a_team_wait_for_each_other) {
  Forced forced;
  Graph graph;
  std::vector<Graph::Edge> fetches;
  for (int i = 0; i < 6; ++i) {
    const int32_t later = graph.start({}, [i](std::shared_ptr<AsyncContext> ctx) {
      std::thread([ctx, i] {
        std::this_thread::sleep_for(std::chrono::microseconds(50 * i));
        ctx->set_output(0, number(i));
        ctx->done();
      }).detach();
    });
    fetches.push_back({graph.plus({graph.plus({later, 0}, 1), 0}, 1), 0});
  }
  auto plan = graph.plan(fetches);
  for (int i = 0; i < 30; ++i) {
    auto got = i % 2 == 0 ? run(plan) : start_and_wait(plan);
    for (int k = 0; k < 6; ++k) CHECK_EQUAL(value_of(got[k]), k + 2);
  }
}

TEST(a_traced_team_records_every_node_once) {
  Forced forced;
  Graph graph;
  std::vector<Graph::Edge> fetches;
  for (int i = 0; i < 5; ++i) fetches.push_back({graph.plus({graph.constant(i), 0}, 1), 0});
  auto plan = graph.plan(fetches);
  StepStats stats({.numerics = false, .details = true});
  auto executor = std::make_shared<Executor>(plan);
  executor->observe(&stats);
  executor->run({});
  std::set<std::string> names;
  for (const NodeRun& each : stats.runs()) {
    CHECK(each.end >= each.start && each.end > 0);
    names.insert(each.def->name);
  }
  CHECK_EQUAL(names.size(), stats.runs().size());
  CHECK_EQUAL(names.size(), size_t{10});
}

}  // namespace
