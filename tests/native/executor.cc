// The executor: order, asynchronous kernels, errors, cancellation, step numbers, and what observers see.
#include "executor/executor.h"

#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "graphs.h"

namespace {

using namespace native_tests;

std::vector<Tensor> run(const std::shared_ptr<Plan>& plan, std::vector<Tensor> feeds = {}) {
  return std::make_shared<Executor>(plan)->run(feeds);
}

Error error_of_run(const std::shared_ptr<Executor>& executor) {
  try {
    executor->run({});
  } catch (const Error& error) {
    return error;
  }
  return Error(Code::ok, "did not fail");
}

// Ends later, on a thread of its own, unless the step is cancelled before.
struct Waiting {
  std::shared_ptr<AsyncContext> context;
  std::promise<void> started;
  std::function<void(std::shared_ptr<AsyncContext>)> kernel() {
    return [this](std::shared_ptr<AsyncContext> ctx) {
      const int64_t token =
          ctx->step().cancellation().add([ctx] { ctx->fail(Error(Code::cancelled, "told to stop")); });
      if (token < 0) return ctx->fail(Error(Code::cancelled, "too late"));
      context = ctx;
      started.set_value();
    };
  }
};

TEST(a_sequential_plan_runs_in_order_and_moves_its_values) {
  Graph graph;
  const int32_t x = graph.feed();
  int writable = 0;
  int32_t last = graph.plus({x, 0}, 1);
  for (int i = 0; i < 5; ++i)
    last = graph.compute({{last, 0}}, [&writable](Context& ctx) {
      writable += ctx.input(0).writable();
      ctx.set_output(0, ctx.take_input(0));
    });
  auto plan = graph.plan({{last, 0}});
  CHECK(plan->flat() && plan->sequential());
  CHECK_EQUAL(value_of(run(plan, {number(41)})[0]), 42);
  CHECK_EQUAL(writable, 5);  // The only reader owns the buffer.
  CHECK_EQUAL(value_of(run(plan, {number(1)})[0]), 2);
}

TEST(an_asynchronous_kernel_is_waited_for) {
  Graph graph;
  const int32_t later = graph.start({}, [](std::shared_ptr<AsyncContext> ctx) {
    std::thread([ctx] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ctx->set_output(0, number(7));
      ctx->done();
    }).detach();
  });
  auto plan = graph.plan({{graph.plus({later, 0}, 1), 0}});
  CHECK(!plan->sequential());
  CHECK_EQUAL(value_of(run(plan)[0]), 8);
}

TEST(a_started_step_reports_once_from_the_thread_pool) {
  Graph graph;
  const int32_t later = graph.start({}, [](std::shared_ptr<AsyncContext> ctx) {
    ctx->set_output(0, number(7));
    ctx->done();
  });
  auto plan = graph.plan({{later, 0}});
  std::promise<int64_t> result;
  std::make_shared<Executor>(plan)->start({}, [&](std::optional<Error> error, std::vector<Tensor> fetched) {
    result.set_value(error ? -1 : value_of(fetched[0]));
  });
  CHECK_EQUAL(result.get_future().get(), 7);
}

TEST(an_error_names_the_innermost_node) {
  Graph graph;
  const int32_t x = graph.constant(1);
  const int32_t bad = graph.compute({{x, 0}}, [](Context&) { fail(Code::out_of_range, "too much"); });
  auto error = error_of_run(std::make_shared<Executor>(graph.plan({{bad, 0}})));
  CHECK(error.code() == Code::out_of_range);
  CHECK_EQUAL(error.node(), graph.specs[bad].def.name);
  CHECK_EQUAL(error.op(), "Compute");
}

TEST(any_exception_becomes_an_error_of_its_node) {
  for (bool memory : {true, false}) {
    for (bool async : {true, false}) {
      auto raise = [memory] {
        if (memory) throw std::bad_alloc();
        throw std::logic_error("a bug");
      };
      Graph graph;
      const int32_t bad = async ? graph.start({}, [&](std::shared_ptr<AsyncContext>) { raise(); })
                                : graph.compute({}, [&](Context&) { raise(); });
      auto error = error_of_run(std::make_shared<Executor>(graph.plan({{bad, 0}})));
      CHECK(error.code() == (memory ? Code::resource_exhausted : Code::internal));
      CHECK_EQUAL(error.node(), graph.specs[bad].def.name);
    }
  }
}

TEST(an_output_that_was_not_set_is_an_error_of_its_node) {
  Graph graph;
  const int32_t bad = graph.compute({}, [](Context&) {});
  auto error = error_of_run(std::make_shared<Executor>(graph.plan({{bad, 0}})));
  CHECK(error.code() == Code::internal);
  CHECK_EQUAL(error.node(), graph.specs[bad].def.name);
  Graph later;
  const int32_t unset = later.start({}, [](std::shared_ptr<AsyncContext> ctx) { ctx->done(); });
  error = error_of_run(std::make_shared<Executor>(later.plan({{unset, 0}})));
  CHECK_EQUAL(error.node(), later.specs[unset].def.name);
}

TEST(abort_cancels_what_waits_and_the_first_error_wins) {
  Graph graph;
  Waiting waiting;
  const int32_t later = graph.start({}, waiting.kernel());
  auto executor = std::make_shared<Executor>(graph.plan({{later, 0}}));
  std::thread other([&] {
    waiting.started.get_future().wait();
    executor->abort(Error(Code::deadline_exceeded, "too slow"));
    executor->abort(Error(Code::internal, "second"));
  });
  auto error = error_of_run(executor);
  other.join();
  CHECK(error.code() == Code::deadline_exceeded);
  CHECK_EQUAL(waiting.context->step().cancellation().add([] {}), -1);
}

TEST(a_step_that_was_aborted_before_it_began_runs_nothing) {
  Graph graph;
  bool ran = false;
  const int32_t node = graph.compute({}, [&ran](Context& ctx) {
    ran = true;
    ctx.set_output(0, number(1));
  });
  auto executor = std::make_shared<Executor>(graph.plan({{node, 0}}));
  executor->abort(Error(Code::cancelled, "never mind"));
  CHECK(error_of_run(executor).code() == Code::cancelled);
  CHECK(!ran);
}

TEST(a_failing_node_waits_for_asynchronous_kernels_before_the_step_ends) {
  Graph graph;
  Waiting waiting;
  graph.start({}, waiting.kernel());
  const int32_t bad = graph.compute({}, [](Context&) { fail(Code::invalid_argument, "bad"); });
  auto plan = graph.plan({{bad, 0}});
  CHECK(error_of_run(std::make_shared<Executor>(plan)).code() == Code::invalid_argument);
}

TEST(polling_can_end_a_waiting_step) {
  Graph graph;
  Waiting waiting;
  const int32_t later = graph.start({}, waiting.kernel());
  auto executor = std::make_shared<Executor>(graph.plan({{later, 0}}));
  executor->poll_with([] { fail(Code::cancelled, "interrupted"); });
  CHECK(error_of_run(executor).message() == "interrupted");
}

TEST(a_plan_can_be_run_again_after_a_failed_step) {
  Graph graph;
  const int32_t x = graph.feed();
  const int32_t checked = graph.compute({{x, 0}}, [](Context& ctx) {
    require(value_of(ctx.input(0)) > 0, "negative");
    ctx.set_output(0, ctx.take_input(0));
  });
  auto plan = graph.plan({{checked, 0}});
  for (int i = 0; i < 3; ++i) {
    CHECK_FAILS(Code::invalid_argument, "negative", run(plan, {number(-1)}));
    CHECK_EQUAL(value_of(run(plan, {number(i + 1)})[0]), i + 1);
  }
}

TEST(a_step_has_the_number_that_it_was_given_or_a_new_one) {
  Graph graph;
  const int32_t node = graph.compute({}, [](Context& ctx) { ctx.set_output(0, number(ctx.step().id())); });
  auto plan = graph.plan({{node, 0}});
  CHECK_EQUAL(value_of(std::make_shared<Executor>(plan, 1234567890123)->run({})[0]), 1234567890123);
  const int64_t first = value_of(run(plan)[0]), second = value_of(run(plan)[0]);
  CHECK(first > 0 && second > first);
  Executor step(plan, 77);
  CHECK_EQUAL(step.container(), "step_77");
}

TEST(a_forked_child_draws_other_numbers) {
  const std::string device = cpu()->name;
  const int64_t before = Step::new_id();
  const uint64_t incarnation = device_incarnation(device);
  int ends[2];
  CHECK_EQUAL(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const uint64_t told[2] = {static_cast<uint64_t>(Step::new_id()), device_incarnation(device)};
    _exit(write(ends[1], told, sizeof(told)) == sizeof(told) ? 0 : 1);
  }
  uint64_t told[2] = {};
  CHECK_EQUAL(read(ends[0], told, sizeof(told)), static_cast<ssize_t>(sizeof(told)));
  int status = -1;
  waitpid(child, &status, 0);
  close(ends[0]);
  close(ends[1]);
  CHECK_EQUAL(status, 0);
  CHECK(std::abs(static_cast<int64_t>(told[0]) - before) > 1000);
  CHECK(told[1] != 0 && told[1] != incarnation);
  CHECK_EQUAL(Step::new_id(), before + 1);
}

TEST(an_observer_sees_each_node_and_the_number_of_the_step) {
  Graph graph;
  const int32_t x = graph.constant(1);
  const int32_t later = graph.start({{x, 0}}, [](std::shared_ptr<AsyncContext> ctx) {
    ctx->set_output(0, number(value_of(ctx->input(0)) + 1));
    ctx->done();
  });
  auto plan = graph.plan({{graph.plus({later, 0}, 1), 0}});
  StepStats stats({});
  auto executor = std::make_shared<Executor>(plan, 5);
  executor->observe(&stats);
  CHECK_EQUAL(value_of(executor->run({})[0]), 3);
  CHECK_EQUAL(stats.step(), 5);
  CHECK_EQUAL(stats.runs().size(), 3u);
  int waits = 0;
  for (const NodeRun& run : stats.runs()) {
    CHECK(run.end >= run.start);
    waits += run.waits;
  }
  CHECK_EQUAL(waits, 1);
}

TEST(a_cancellation_calls_each_callback_once) {
  Cancellation cancellation;
  int first = 0, second = 0;
  const int64_t kept = cancellation.add([&] { ++first; });
  const int64_t removed = cancellation.add([&] { ++second; });
  CHECK(cancellation.remove(removed));
  CHECK(!cancellation.remove(removed));
  cancellation.cancel();
  cancellation.cancel();
  CHECK_EQUAL(first, 1);
  CHECK_EQUAL(second, 0);
  CHECK(!cancellation.remove(kept));
  CHECK(cancellation.cancelled());
  CHECK_EQUAL(cancellation.add([&] { ++second; }), -1);
}

TEST(cancelling_races_with_removing_and_one_of_them_wins) {
  for (int round = 0; round < 300; ++round) {
    Cancellation cancellation;
    std::atomic<int> calls{0};
    const int64_t token = cancellation.add([&] { ++calls; });
    std::thread canceller([&] { cancellation.cancel(); });
    const bool removed = cancellation.remove(token);
    canceller.join();
    CHECK_EQUAL(calls.load(), removed ? 0 : 1);
  }
}

}  // namespace
