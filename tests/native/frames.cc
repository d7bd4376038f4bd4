// Conditionals and loops: pending counts, dead tokens, the numbers of frames and iterations.
#include "executor/frames.h"

#include <mutex>
#include <set>

#include "check.h"
#include "graphs.h"

namespace {

using namespace native_tests;

std::vector<Tensor> run(const std::shared_ptr<Plan>& plan, std::vector<Tensor> feeds = {}) {
  return std::make_shared<Executor>(plan)->run(feeds);
}

// Where the nodes of a loop body ran.
struct Visited {
  std::function<void(Context&)> kernel() {
    return [this](Context& ctx) {
      places.push_back(ctx.iteration());
      ctx.set_output(0, number(value_of(ctx.input(0)) + 1));
    };
  }
  std::vector<FrameIteration> places;
};

TEST(the_number_of_a_frame_follows_the_written_formula) {
  // Computed once by hand from the formula in frame_iteration.h: another implementation must come to the same numbers.
  constexpr uint64_t outer = child_frame({}, fnv1a64("outer"));
  static_assert(outer == combine64(combine64(0, 0), fnv1a64("outer")));
  CHECK_EQUAL(outer, 0xf3b387134aa26410u);
  CHECK_EQUAL(child_frame({outer, 2}, fnv1a64("inner")), 0xaac4735040e4d4fdu);
}

TEST(nodes_of_a_loop_know_frame_and_iteration) {
  Graph graph;
  Visited visited;
  const int32_t exit = count_up(graph, {graph.constant(0), 0}, 3, "outer",
                                [&](Graph::Edge x) { return graph.compute({x}, visited.kernel()); });
  CHECK_EQUAL(value_of(run(graph.plan({{exit, 0}}))[0]), 3);
  CHECK_EQUAL(visited.places.size(), 3u);
  for (int64_t i = 0; i < 3; ++i) CHECK(visited.places[i] == (FrameIteration{child_frame({}, fnv1a64("outer")), i}));
}

TEST(nested_frames_have_numbers_of_their_own_and_the_same_in_every_plan) {
  auto places = [](int unrelated) {
    Graph graph;
    for (int i = 0; i < unrelated; ++i)  // Other loops before it move the positions of nodes and frames.
      count_up(graph, {graph.constant(0), 0}, 2, cat("unrelated", i), [&](Graph::Edge x) { return graph.plus(x, 1); });
    auto visited = std::make_shared<Visited>();
    const int32_t exit = count_up(graph, {graph.constant(0), 0}, 3, "outer", [&](Graph::Edge x) {
      const int32_t zero = graph.compute({x}, [](Context& ctx) { ctx.set_output(0, number(0)); });
      const int32_t inner =
          count_up(graph, {zero, 0}, 2, "inner", [&](Graph::Edge y) { return graph.compute({y}, visited->kernel()); });
      return graph.compute({x, {inner, 0}},
                           [](Context& ctx) { ctx.set_output(0, number(value_of(ctx.input(0)) + 1)); });
    });
    CHECK_EQUAL(value_of(run(graph.plan({{exit, 0}}))[0]), 3);
    return visited->places;
  };
  const std::vector<FrameIteration> found = places(0);
  CHECK_EQUAL(found.size(), 6u);
  std::set<uint64_t> frames;
  for (FrameIteration at : found) frames.insert(at.frame);
  std::set<uint64_t> expected;
  const uint64_t outer = child_frame({}, fnv1a64("outer"));
  for (int64_t i = 0; i < 3; ++i) expected.insert(child_frame({outer, i}, fnv1a64("inner")));
  CHECK(frames == expected);
  CHECK(places(2) == found);
}

TEST(loops_of_one_name_in_different_frames_differ) {
  const uint64_t a = child_frame({}, fnv1a64("a")), b = child_frame({}, fnv1a64("b"));
  CHECK(child_frame({a, 0}, fnv1a64("loop")) != child_frame({b, 0}, fnv1a64("loop")));
  CHECK(child_frame({a, 0}, fnv1a64("loop")) != child_frame({a, 1}, fnv1a64("loop")));
  std::set<uint64_t> seen;
  for (uint64_t frame : {uint64_t{0}, a, b})
    for (int64_t i = 0; i < 1000; ++i) seen.insert(child_frame({frame, i}, fnv1a64("loop")));
  CHECK_EQUAL(seen.size(), 3000u);
}

TEST(parallel_iterations_change_nothing_but_the_order) {
  for (int64_t parallel : {1, 2, 10}) {
    Graph graph;
    const int32_t exit =
        count_up(graph, {graph.feed(), 0}, 100, "loop", [&](Graph::Edge x) { return graph.plus(x, 1); }, parallel);
    auto plan = graph.plan({{exit, 0}});
    CHECK_EQUAL(value_of(run(plan, {number(0)})[0]), 100);
    CHECK_EQUAL(value_of(run(plan, {number(1000)})[0]), 1000);  // It does not run at all.
  }
}

TEST(the_branch_that_is_not_taken_does_not_run) {
  Graph graph;
  const int32_t x = graph.feed();
  int ran[2] = {0, 0};
  const int32_t branch = graph.switch_({x, 0}, {graph.below({x, 0}, 10), 0});
  auto side = [&](int32_t output, int64_t amount) {
    return graph.compute({{branch, output}}, [&ran, output, amount](Context& ctx) {
      ++ran[output];
      ctx.set_output(0, number(value_of(ctx.input(0)) + amount));
    });
  };
  const int32_t no = side(0, 100), yes = side(1, 1);
  const int32_t merge = graph.merge({{no, 0}, {yes, 0}});
  auto plan = graph.plan({{merge, 0}});
  CHECK_EQUAL(value_of(run(plan, {number(5)})[0]), 6);
  CHECK_EQUAL(ran[0], 0);
  CHECK_EQUAL(value_of(run(plan, {number(50)})[0]), 150);
  CHECK_EQUAL(ran[1], 1);
  auto dead = graph.plan({{yes, 0}});
  CHECK_FAILS(Code::invalid_argument, "dead", run(dead, {number(50)}));
}

TEST(an_error_inside_a_loop_names_its_node_and_ends_the_step) {
  Graph graph;
  int32_t bad = -1;
  const int32_t exit = count_up(graph, {graph.constant(0), 0}, 1000, "loop", [&](Graph::Edge x) {
    return bad = graph.compute({x}, [](Context& ctx) {
      require(value_of(ctx.input(0)) < 7, "seven");
      ctx.set_output(0, number(value_of(ctx.input(0)) + 1));
    });
  });
  auto plan = graph.plan({{exit, 0}});
  try {
    run(plan);
    CHECK(false);
  } catch (const Error& error) {
    CHECK_EQUAL(error.message(), "seven");
    CHECK_EQUAL(error.node(), graph.specs[bad].def.name);
  }
}

TEST(a_node_waits_for_all_its_inputs_and_is_dead_if_one_is) {
  using Verdict = PendingCounts::Verdict;
  Graph graph;
  const int32_t a = graph.feed(), b = graph.feed();
  const int32_t both = graph.compute({{a, 0}, {b, 0}}, [](Context&) {});
  graph.add("NoOp", {}, {}, nullptr, {both});
  const int32_t merge = graph.merge({{a, 0}, {b, 0}});
  auto plan = graph.plan({{merge, 0}});
  const NodeItem *plain = nullptr, *merging = nullptr;
  for (const NodeItem& node : plan->nodes()) {
    if (node.def.op == "Compute") plain = &node;
    if (node.def.op == "Merge") merging = &node;
  }
  const auto initial = PendingCounts::initial(*plan, plan->frames()[0]);
  PendingCounts counts;
  auto fresh = [&]() -> PendingCounts& {
    counts.reset(initial);
    return counts;
  };
  CHECK(fresh().arrived(*plain, false) == Verdict::wait);
  CHECK(counts.arrived(*plain, false) == Verdict::run);
  CHECK(fresh().arrived(*plain, true) == Verdict::wait);
  CHECK(counts.arrived(*plain, false) == Verdict::run_dead);
  // The first live input makes a Merge run, and only that one.
  CHECK(fresh().merge_data(*merging, true) == Verdict::wait);
  CHECK(counts.merge_open(*merging));
  CHECK(counts.merge_data(*merging, false) == Verdict::run);
  CHECK(!counts.merge_open(*merging));
  CHECK(fresh().merge_data(*merging, false) == Verdict::run);
  CHECK(counts.merge_data(*merging, false) == Verdict::wait);
  CHECK(fresh().merge_data(*merging, true) == Verdict::wait);
  CHECK(counts.merge_data(*merging, true) == Verdict::run_dead);
}

TEST(a_merge_waits_for_its_control_inputs) {
  using Verdict = PendingCounts::Verdict;
  Graph graph;
  const int32_t a = graph.feed(), b = graph.feed();
  const int32_t before = graph.add("NoOp", {}, {});
  const int32_t merge = graph.merge({{a, 0}, {b, 0}});
  graph.specs[merge].controls = {before};
  auto plan = graph.plan({{merge, 0}});
  const NodeItem* merging = nullptr;
  for (const NodeItem& node : plan->nodes())
    if (node.def.op == "Merge") merging = &node;
  PendingCounts counts;
  counts.reset(PendingCounts::initial(*plan, plan->frames()[0]));
  CHECK(counts.merge_data(*merging, false) == Verdict::wait);
  CHECK(counts.merge_control(*merging) == Verdict::run);
  CHECK(counts.merge_data(*merging, true) == Verdict::wait);
}

}  // namespace
