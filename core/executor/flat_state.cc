// Running a graph without control flow.
#include "executor/flat_state.h"

#include <algorithm>

#include "executor/frames.h"

namespace thalweg {

std::unique_ptr<State> State::make(const Plan& plan) {
  if (plan.flat()) return std::make_unique<FlatState>(plan);
  return std::make_unique<FrameState>(plan);
}

FlatState::FlatState(const Plan& plan) : plan_(plan), slots_(plan.frames()[0].num_slots), outputs_(plan.max_outputs()) {
  fill_constants();
}

void FlatState::fill_constants() {
  for (const NodeItem& node : plan_.nodes())
    for (const auto& [input, value] : node.constants) slots_[node.first_slot + input] = value;
}

void FlatState::begin(std::span<Tensor> feeds, bool team) {
  in_order_ = plan_.sequential() && !team;
  order_ = plan_.sequential() && team ? &plan_.pace().order() : nullptr;
  if (in_order_) {
    pending_.clear();
  } else {
    pending_.resize(plan_.nodes().size());
    for (size_t i = 0; i < pending_.size(); ++i) {
      pending_[i] = plan_.nodes()[i].pending + (order_ != nullptr ? order_->pending[i] : 0);
      if (pending_[i] == 0 && plan_.nodes()[i].kernel) make_ready(static_cast<int32_t>(i));
    }
  }
  for (size_t i = 0; i < feeds.size(); ++i) {
    int32_t at = plan_.feeds()[i];
    if (at < 0) continue;
    const NodeItem& node = plan_.node(at);
    for (const Edge& edge : node.edges) slots_[edge.slot] = feeds[i];
    if (!pending_.empty()) notify(node);
  }
}

void FlatState::drain(Executor& executor) {
  if (in_order_)
    run_in_order(executor);
  else
    run_ready(executor);
}

[[gnu::always_inline]] inline void FlatState::fill_slots(const NodeItem& node, Tensor* outputs) {
  for (const Edge& edge : node.edges) {
    if (edge.last)
      slots_[edge.slot] = std::move(outputs[edge.output]);
    else
      slots_[edge.slot] = outputs[edge.output];
  }
}

[[gnu::always_inline]] inline void FlatState::release_inputs(const NodeItem& node) {
  if (node.constant_inputs == 0) [[likely]] {
    for (int i = 0; i < node.num_inputs; ++i) slots_[node.first_slot + i].reset();
    return;
  }
  for (int i = 0; i < node.num_inputs; ++i)
    if (i >= 64 || (node.constant_inputs >> i & 1) == 0) slots_[node.first_slot + i].reset();
  // A kernel may have moved a constant out of its slot.
  for (const auto& [input, value] : node.constants)
    if (!slots_[node.first_slot + input].defined()) slots_[node.first_slot + input] = value;
}

[[gnu::always_inline]] inline void FlatState::pass_on(const NodeItem& node) {
  Tensor* outputs = outputs_.data();
  require_outputs(node.def, node.num_outputs, outputs);
  // Inputs are released first: the consumer of a forwarded buffer must be its only owner.
  release_inputs(node);
  fill_slots(node, outputs);
  for (int i = 0; i < node.num_outputs; ++i) outputs[i].reset();
}

[[gnu::always_inline]] inline bool FlatState::execute(Executor& executor, const NodeItem& node) {
  if (!executor.execute(node, slots_.data() + node.first_slot, outputs_.data(), {}, {&node, nullptr, nullptr}))
    return false;
  pass_on(node);
  return true;
}

void FlatState::run_in_order(Executor& executor) {
  for (const NodeItem& node : plan_.nodes()) {
    if (!node.kernel) continue;
    if (executor.interrupted()) return;
    execute(executor, node);
  }
}

bool FlatState::run_within(Step& step) {
  AccountScope account(plan_.device().account);
  const NodeSite site{plan_.device(), step, observer_of(step), true};
  uint32_t ticks = 0;
  for (const NodeItem& node : plan_.nodes()) {
    if (!node.kernel) continue;
    if (step.interrupted()) return false;
    compute_node(site, node.def, *node.kernel, slots_.data() + node.first_slot, outputs_.data(), {});
    if ((++ticks & 1023) == 0) step.tick();
    pass_on(node);
  }
  return true;
}

void FlatState::run_ready(Executor& executor) {
  while (!ready_.empty() && !executor.interrupted() && !executor.wants_thread()) {
    std::pop_heap(ready_.begin(), ready_.end(), std::greater<>());
    const NodeItem& node = plan_.node(ready_.back());
    ready_.pop_back();
    if (execute(executor, node)) notify(node);
  }
}

void FlatState::notify(const NodeItem& node) {
  for (const Edge& edge : node.edges)
    if (--pending_[edge.node] == 0) make_ready(edge.node);
  for (int32_t to : node.controls)
    if (--pending_[to] == 0) make_ready(to);
  if (order_ == nullptr) return;
  for (int32_t to : order_->later[&node - plan_.nodes().data()])
    if (--pending_[to] == 0) make_ready(to);
}

void FlatState::make_ready(int32_t node) {
  ready_.push_back(node);
  std::push_heap(ready_.begin(), ready_.end(), std::greater<>());
}

void FlatState::complete(const Started& started, Tensor* outputs) {
  require_outputs(started.node->def, started.node->num_outputs, outputs);
  fill_slots(*started.node, outputs);
  notify(*started.node);
}

void FlatState::arrive(const NodeItem& node, Tensor value) {
  if (!value.defined()) fail(Code::internal, "a dead value arrived at '", node.def.name, "', which cannot be dead");
  const int32_t at = static_cast<int32_t>(&node - plan_.nodes().data());
  const bool waits = --pending_[at] > 0;
  if (waits || node.cut) {
    slots_[node.first_slot] = std::move(value);
    if (!waits) make_ready(at);
    return;
  }
  // The node waits for nothing else: its value goes straight to its readers.
  fill_slots(node, &value);
  notify(node);
}

std::span<Tensor> FlatState::fetched() {
  const NodeItem& sink = plan_.sink();
  return {slots_.data() + sink.first_slot, static_cast<size_t>(sink.num_inputs)};
}

void FlatState::clear() {
  for (Tensor& slot : slots_) slot.reset();
  for (Tensor& output : outputs_) output.reset();
  ready_.clear();
  fill_constants();
}

}  // namespace thalweg
