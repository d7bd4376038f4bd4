// FlatState: a step over a graph without control flow: one set of slots, no frames, no dead tokens.
//
// If all kernels are synchronous, and one thread runs them, the schedule is simply run in order. Otherwise nodes wait
// for their inputs in pending counts, and the ready ones run in schedule order.
#pragma once

#include "executor/executor.h"
#include "executor/state.h"

namespace thalweg {

class FlatState final : public State {
 public:
  explicit FlatState(const Plan& plan);
  void begin(std::span<Tensor> feeds, bool team) override;
  bool can_start() const override { return !ready_.empty(); }
  void drain(Executor& executor) override;
  void complete(const Started& started, Tensor* outputs) override;
  void arrive(const NodeItem& node, Tensor value) override;
  std::span<Tensor> fetched() override;
  void clear() override;
  // Runs a sequential plan to its end within another step, on the thread that drives that one; false if that step was
  // interrupted meanwhile.
  bool run_within(Step& step);

 private:
  void fill_constants();
  void run_in_order(Executor& executor);
  void run_ready(Executor& executor);
  // Runs one node and passes its outputs on; false if the kernel is asynchronous and will report later.
  bool execute(Executor& executor, const NodeItem& node);
  void pass_on(const NodeItem& node);
  void fill_slots(const NodeItem& node, Tensor* outputs);
  void release_inputs(const NodeItem& node);
  void notify(const NodeItem& node);
  void make_ready(int32_t node);

  const Plan& plan_;
  bool in_order_ = false;
  const Pace::Order* order_ = nullptr;  // of nodes that use the same resources, if the plan leaves it to the state
  std::vector<Tensor> slots_;
  std::vector<Tensor> outputs_;
  std::vector<int32_t> pending_;  // empty if nodes run in order
  std::vector<int32_t> ready_;    // a heap: the earliest in the schedule first
};

}  // namespace thalweg
