// Building and running lowered loops.
#include "executor/loop_program.h"

#include <algorithm>

#include "executor/compiled_loop.h"
#include "executor/executor.h"
#include "executor/loop_builder.h"

namespace thalweg {
namespace {

// So many iterations take longer than making code for the loop.
constexpr uint32_t kWorthCompiling = 256;
// For so many combinations of shapes.
constexpr size_t kMostCompiled = 4;

}  // namespace

LoopProgram::LoopProgram(std::vector<NodeSpec> specs, int num_condition, int num_variables, int num_invariants,
                         LoopSource predicate, const std::vector<LoopSource>& next, const KernelMaker& make_kernel,
                         Device& device)
    : device_(device),
      predicate_(predicate),
      next_(next),
      items_(specs.size()),
      num_condition_(num_condition),
      num_variables_(num_variables),
      num_invariants_(num_invariants),
      before_condition_(num_variables + num_invariants),
      before_body_(num_variables + num_invariants) {
  int32_t outside = num_variables + num_invariants;
  int32_t total = outside + static_cast<int32_t>(specs.size());
  auto has_branches = [](const Item& item) { return item.may_be_dead || item.kind == Kind::choose; };
  auto connect = [&](LoopSource from, int32_t slot, int32_t reader) {
    if (from.source < 0 || from.source >= std::min(total, outside + reader))
      fail(Code::internal, "a loop's node reads a value that is computed after it");
    if (from.source < outside) {
      bool in_condition = reader < num_condition;
      (in_condition ? before_condition_ : before_body_)[from.source].push_back(slot);
      return;
    }
    Item& source = items_[from.source - outside];
    int32_t input = reader < static_cast<int32_t>(items_.size()) ? slot - items_[reader].first_slot : 64;
    if (source.def.op == "Const" && source.inputs.empty() && input < 64) {
      items_[reader].constants.emplace_back(input, source.def.attr<Tensor>("value"));
      items_[reader].constant_inputs |= uint64_t{1} << input;
      return;
    }
    source.pushes.push_back({from.output, slot, false});
  };
  for (size_t i = 0; i < specs.size(); ++i) {
    NodeSpec& spec = specs[i];
    Item& item = items_[i];
    item.kind = spec.def.op == "Switch" ? Kind::choose : spec.def.op == "Merge" ? Kind::merge : Kind::compute;
    if (item.kind == Kind::compute) item.kernel = make_kernel(spec);
    if (dynamic_cast<AsyncKernel*>(item.kernel.get()) != nullptr)
      fail(Code::internal, "an asynchronous kernel inside a lowered loop");
    item.first_slot = num_slots_;
    item.num_inputs = static_cast<int32_t>(spec.inputs.size());
    item.num_outputs = static_cast<int32_t>(spec.def.output_dtypes.size());
    max_outputs_ = std::max(max_outputs_, item.num_outputs);
    num_slots_ += item.num_inputs;
    for (const auto& [source, output] : spec.inputs) item.inputs.push_back({source, output});
    for (int32_t k = 0; k < item.num_inputs; ++k)
      connect({spec.inputs[k].first, spec.inputs[k].second}, item.first_slot + k, static_cast<int32_t>(i));
    for (const LoopSource& input : item.inputs)
      if (input.source >= outside) item.may_be_dead |= has_branches(items_[input.source - outside]);
    item.def = std::move(spec.def);
  }
  predicate_slot_ = num_slots_++;
  if (predicate.source < outside)
    before_condition_[predicate.source].push_back(predicate_slot_);
  else
    items_[predicate.source - outside].pushes.push_back({predicate.output, predicate_slot_, false});
  next_slot_ = num_slots_;
  num_slots_ += num_variables;
  for (int k = 0; k < num_variables; ++k) connect(next[k], next_slot_ + k, static_cast<int32_t>(specs.size()));
  for (Item& item : items_) {
    if (item.def.op == "Const" && item.pushes.empty()) item.kind = Kind::constant;  // kept in the slots of its readers
    std::vector<bool> seen(item.num_outputs, false);
    for (size_t p = item.pushes.size(); p-- > 0;) {
      item.pushes[p].last = !seen[item.pushes[p].output];
      seen[item.pushes[p].output] = true;
    }
  }
}

LoopProgram::~LoopProgram() = default;

std::vector<const NodeDef*> LoopProgram::nodes() const {
  std::vector<const NodeDef*> found;
  for (const Item& item : items_) found.push_back(&item.def);
  return found;
}

// Leaves the outputs undefined where the node is not to run.
void LoopProgram::run_branching(const Item& item, Tensor* inputs, Tensor* outputs, const NodeSite& site) const {
  if (item.kind == Kind::merge) {
    for (int k = 0; k < item.num_inputs && !outputs[0].defined(); ++k)
      if (inputs[k].defined()) outputs[0] = std::move(inputs[k]);
    return;
  }
  for (int k = 0; k < item.num_inputs; ++k)
    if (!inputs[k].defined()) return;
  if (item.kind == Kind::choose) {
    require(inputs[1].num_elements() == 1, "a conditional's predicate must be a scalar, got shape ", inputs[1].shape());
    outputs[*inputs[1].flat<bool>() ? 1 : 0] = std::move(inputs[0]);
    return;
  }
  compute_node(site, item.def, *item.kernel, inputs, outputs, {});
  require_outputs(item.def, item.num_outputs, outputs);
}

inline void LoopProgram::run_items(size_t first, size_t last, Scratch& scratch, const NodeSite& site) const {
  Tensor* slots = scratch.slots.data();
  Tensor* outputs = scratch.outputs.data();
  for (size_t i = first; i < last; ++i) {
    const Item& item = items_[i];
    if (item.kind == Kind::constant) continue;
    if (item.kind != Kind::compute || item.may_be_dead) [[unlikely]] {
      run_branching(item, slots + item.first_slot, outputs, site);
    } else {
      compute_node(site, item.def, *item.kernel, slots + item.first_slot, outputs, {});
      require_outputs(item.def, item.num_outputs, outputs);
    }
    for (int k = 0; k < item.num_inputs; ++k)
      if (k >= 64 || (item.constant_inputs >> k & 1) == 0) slots[item.first_slot + k].reset();
    for (const auto& [input, value] : item.constants)
      if (!slots[item.first_slot + input].defined()) slots[item.first_slot + input] = value;
    for (const Push& push : item.pushes) {
      if (push.last)
        slots[push.slot] = std::move(outputs[push.output]);
      else
        slots[push.slot] = outputs[push.output];
    }
    for (int k = 0; k < item.num_outputs; ++k) outputs[k].reset();
  }
}

std::unique_ptr<LoopProgram::Scratch> LoopProgram::take_scratch() const {
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Scratch> scratch = std::move(idle_.back());
      idle_.pop_back();
      return scratch;
    }
  }
  auto scratch = std::make_unique<Scratch>();
  scratch->slots.resize(num_slots_);
  scratch->outputs.resize(max_outputs_);
  for (const Item& item : items_)
    for (const auto& [input, value] : item.constants) scratch->slots[item.first_slot + input] = value;
  return scratch;
}

bool LoopProgram::run_code(std::span<Tensor> variables, std::span<Tensor> invariants, Step& step,
                           bool is_worth_compiling) const {
  if (!is_compilable_.load(std::memory_order_relaxed)) return false;
  const CompiledLoop* code = nullptr;
  {
    std::lock_guard lock(mutex_);
    for (const auto& known : compiled_)
      if (known->fits(variables, invariants)) code = known.get();
    if (code == nullptr && is_worth_compiling && compiled_.size() + failed_ < kMostCompiled) {
      std::unique_ptr<const CompiledLoop> made = LoopBuilder(*this, step).compile(variables, invariants);
      code = made.get();
      if (made != nullptr)
        compiled_.push_back(std::move(made));
      else
        ++failed_;
      if (compiled_.empty()) is_compilable_.store(false, std::memory_order_relaxed);
    }
  }
  return code != nullptr && code->run(variables, invariants, step);
}

void LoopProgram::run(std::span<Tensor> variables, std::span<Tensor> invariants, Step& step) const {
  std::unique_ptr<Scratch> scratch = take_scratch();
  const NodeSite site{device_, step, observer_of(step)};
  Tensor* slots = scratch->slots.data();
  // The arrays of a loop are only compiled as they are at its beginning (executor/loop_arrays.h).
  const bool has_handles = std::any_of(invariants.begin(), invariants.end(),
                                       [](const Tensor& each) { return each.dtype() == DType::resource; });
  for (uint32_t iteration = 0;; ++iteration) {
    // After a failure in machine code the nodes repeat the iteration, and report it.
    if ((iteration == 0 || (iteration == kWorthCompiling && !has_handles)) && site.stats == nullptr &&
        run_code(variables, invariants, step,
                 iterations_.load(std::memory_order_relaxed) + iteration >= kWorthCompiling))
      break;
    if (step.interrupted()) fail(Code::cancelled, "the step was cancelled inside a loop");
    if ((iteration & 255) == 255) step.tick();
    for (int k = 0; k < num_variables_; ++k)
      for (int32_t slot : before_condition_[k]) slots[slot] = variables[k];
    for (int k = 0; k < num_invariants_; ++k)
      for (int32_t slot : before_condition_[num_variables_ + k]) slots[slot] = invariants[k];
    run_items(0, num_condition_, *scratch, site);
    const Tensor& predicate = slots[predicate_slot_];
    require(predicate.defined(), "a loop's condition comes from a branch that was not taken");
    require(predicate.num_elements() == 1, "a loop's condition must be a scalar, got shape ", predicate.shape());
    bool go_on = *predicate.flat<bool>();
    slots[predicate_slot_].reset();
    if (!go_on) {
      if (iterations_.load(std::memory_order_relaxed) < kWorthCompiling)
        iterations_.fetch_add(std::min(iteration, kWorthCompiling), std::memory_order_relaxed);
      break;
    }
    for (int k = 0; k < num_variables_; ++k) {
      const auto& targets = before_body_[k];
      for (size_t t = 0; t < targets.size(); ++t) {
        if (t + 1 == targets.size())
          slots[targets[t]] = std::move(variables[k]);
        else
          slots[targets[t]] = variables[k];
      }
    }
    for (int k = 0; k < num_invariants_; ++k)
      for (int32_t slot : before_body_[num_variables_ + k]) slots[slot] = invariants[k];
    run_items(num_condition_, items_.size(), *scratch, site);
    for (int k = 0; k < num_variables_; ++k) {
      variables[k] = std::move(slots[next_slot_ + k]);
      if (!variables[k].defined()) [[unlikely]]
        fail(Code::internal, "variable ", k, " of a loop comes from a branch that was not taken");
    }
  }
  // Drop the values that the last condition computed for a body that did not run.
  for (const Item& item : items_)
    for (int k = 0; k < item.num_inputs; ++k)
      if (k >= 64 || (item.constant_inputs >> k & 1) == 0) scratch->slots[item.first_slot + k].reset();
  for (int k = 0; k < num_variables_; ++k) scratch->slots[next_slot_ + k].reset();
  std::lock_guard lock(mutex_);
  if (idle_.size() < 4) idle_.push_back(std::move(scratch));
}

}  // namespace thalweg
