// Teams in steps over several devices: threads of one part beside those of the other, waiting nodes, errors, abort.
#include "check.h"
#include "executor/joint_step.h"
#include "teams.h"

namespace {

using namespace native_tests;

std::vector<Tensor> run(const std::vector<JointStep::Part>& parts, std::vector<Tensor> feeds, size_t num_fetches) {
  return std::make_shared<JointStep>(parts)->run(feeds, num_fetches);
}

TEST(nodes_of_one_part_run_at_the_same_time) {
  Forced forced;
  Meeting meeting;
  Two two;
  const int32_t x = two.a.compute({}, meeting.kernel());
  const int32_t y = two.a.compute({}, meeting.kernel());
  const int32_t there = two.to_b({x, 0}, "x");
  auto parts = two.parts({{y, 0}}, {{two.b.plus({there, 0}, 1), 0}});
  for (int i = 0; i < 50; ++i) CHECK_EQUAL(value_of(run(parts, {}, 2)[1]), 2);
}

// Three nodes that wait for each other, two in one part, while a chain between the parts has to go on.
TEST(nodes_that_may_wait_for_each_other_do_so_on_several_devices) {
  for (int round = 0; round < 30; ++round) {
    Two two;
    std::atomic<int> here{0};
    auto meet = [&here](Context& ctx) {
      ++here;
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (here.load() < 3 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
      if (here.load() < 3) fail(Code::deadline_exceeded, "nobody came");
      ctx.set_output(0, number(1));
    };
    const int32_t first = two.a.compute({}, meet);
    const int32_t second = two.a.compute({}, meet);
    int32_t there = two.to_b({two.a.constant(0), 0}, "x");
    const int32_t back = two.to_a({two.b.plus({there, 0}, 1), 0}, "y");
    there = two.to_b({two.a.plus({back, 0}, 1), 0}, "z");
    const int32_t third = two.b.compute({{there, 0}}, meet);
    two.a.specs[first].may_wait = two.a.specs[second].may_wait = two.b.specs[third].may_wait = true;
    auto parts = two.parts({{first, 0}, {second, 0}}, {{third, 0}, {there, 0}});
    auto fetched = run(parts, {}, 4);
    CHECK_EQUAL(value_of(fetched[2]), 1);
    CHECK_EQUAL(value_of(fetched[3]), 2);
  }
}

// Layers of sums over both devices; each value goes to the next layer of a device by chance.
std::vector<JointStep::Part> random_parts(uint32_t seed, bool linked) {
  Two two;
  Graph* graphs[] = {&two.a, &two.b};
  uint32_t random = seed;
  auto draw = [&](size_t below) {
    random = random * 1664525u + 1013904223u;
    return (random >> 16) % below;
  };
  std::vector<std::pair<int, Graph::Edge>> layer;
  for (int i = 0; i < 6; ++i) layer.push_back({i % 2, {graphs[i % 2]->constant(i + 1), 0}});
  int transfers = 0;
  for (int depth = 0; depth < 10; ++depth) {
    auto on = [&](const std::pair<int, Graph::Edge>& value, int device) -> Graph::Edge {
      if (value.first == device) return value.second;
      const std::string name = cat("t", transfers++);
      return {device == 1 ? two.to_b(value.second, name) : two.to_a(value.second, name), 0};
    };
    std::vector<std::pair<int, Graph::Edge>> next;
    for (size_t i = 0; i < layer.size(); ++i) {
      const int device = static_cast<int>(draw(2));
      const Graph::Edge x = on(layer[i], device), y = on(layer[draw(layer.size())], device);
      const auto factor = static_cast<uint64_t>(i) + 2;
      next.push_back({device,
                      {graphs[device]->compute({x, y},
                                               [factor](Context& ctx) {
                                                 const auto sum =
                                                     static_cast<uint64_t>(value_of(ctx.input(0))) * factor +
                                                     static_cast<uint64_t>(value_of(ctx.input(1)));
                                                 ctx.set_output(0, number(static_cast<int64_t>(sum)));
                                               }),
                       0}});
    }
    layer = next;
  }
  std::vector<Graph::Edge> fetches[2];
  for (const auto& [device, edge] : layer) fetches[device].push_back(edge);
  return two.parts(fetches[0], fetches[1], linked);
}

TEST(values_do_not_depend_on_the_teams_of_the_parts) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    auto parts = random_parts(seed, seed % 2 == 0);
    std::vector<int64_t> expected;
    for (const Tensor& value : run(parts, {}, 6)) expected.push_back(value_of(value));
    Forced forced;
    for (int i = 0; i < 5; ++i) {
      auto got = run(parts, {}, 6);
      for (size_t k = 0; k < expected.size(); ++k) CHECK_EQUAL(value_of(got[k]), expected[k]);
    }
  }
}

TEST(steps_with_teams_over_devices_run_at_the_same_time_and_may_be_started) {
  auto parts = random_parts(5, true);
  std::vector<int64_t> expected;
  for (const Tensor& value : run(parts, {}, 6)) expected.push_back(value_of(value));
  Forced forced;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        std::vector<Tensor> got;
        if (t % 2 == 0) {
          got = run(parts, {}, 6);
        } else {
          std::promise<std::vector<Tensor>> ended;
          auto step = std::make_shared<JointStep>(parts);
          step->start({}, 6, [&](std::optional<Error>, std::vector<Tensor> values) { ended.set_value(values); });
          got = ended.get_future().get();
        }
        for (size_t k = 0; k < expected.size(); ++k) wrong += got.size() != 6 || value_of(got[k]) != expected[k];
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK_EQUAL(wrong.load(), 0);
}

TEST(an_error_in_a_node_computed_apart_ends_all_parts) {
  Forced forced;
  for (int round = 0; round < 50; ++round) {
    Two two;
    const int32_t bad = two.a.compute({}, [](Context&) { fail(Code::out_of_range, "no more"); });
    two.a.constant(3);
    const int32_t there = two.to_b({bad, 0}, "x");
    const int32_t other = two.b.constant(4);
    auto parts = two.parts({}, {{there, 0}, {other, 0}}, round % 2 == 0);
    CHECK_FAILS(Code::out_of_range, "no more", run(parts, {}, 2));
  }
}

TEST(an_abort_from_outside_ends_a_step_whose_parts_have_teams) {
  Forced forced;
  for (int round = 0; round < 50; ++round) {
    auto parts = random_parts(static_cast<uint32_t>(round), round % 2 == 0);
    auto step = std::make_shared<JointStep>(parts);
    std::thread other([step] { step->abort(Error(Code::cancelled, "enough")); });
    try {
      step->run({}, 6);
    } catch (const Error& error) {
      CHECK(error.code() == Code::cancelled);
    }
    other.join();
  }
}

}  // namespace
