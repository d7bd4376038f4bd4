// The threads of a team that drive one step.
#include <algorithm>
#include <optional>

#include "executor/executor.h"
#include "tensor/resource_handle.h"
#include "thread/denormals.h"
#include "thread/helper_pool.h"
#include "thread/parallel.h"
#include "thread/share_scope.h"

namespace thalweg {
namespace {

// Spin at most about as long as a wake-up takes.
constexpr int64_t kSpin = 50'000;
constexpr auto kPollInterval = std::chrono::milliseconds(50);

bool uses_resources(const NodeItem& node) {
  const auto& dtypes = node.def.input_dtypes;
  return node.uses == ResourceUse::any || std::find(dtypes.begin(), dtypes.end(), DType::resource) != dtypes.end();
}

std::vector<const Resource*> resources_of(const NodeItem& node, const Tensor* inputs) {
  std::vector<const Resource*> found;
  for (int i = 0; i < node.num_inputs; ++i)
    if (inputs[i].defined() && inputs[i].dtype() == DType::resource && inputs[i].num_elements() == 1)
      found.push_back(inputs[i].flat<ResourceHandle>()->resource.get());
  return found;
}

}  // namespace

thread_local Executor::OnThread Executor::apart_;

void Executor::run_in_team() {
  caller_ = std::this_thread::get_id();
  do {
    drive_in_team();
  } while (wait_for_state());
}

void Executor::drive_in_team(Taken* taken) {
  // The driver of a joint step shares the cores among the threads of all parts.
  std::optional<ShareScope> cores;
  if (driver_ == nullptr) cores.emplace(active_);
  taken_ = taken;
  // Counted for as long as it works, and no longer: the next step may begin before this thread has returned.
  auto enter = [this] {
    plan_->limit().enter();
    active_.fetch_add(1, std::memory_order_relaxed);
  };
  auto leave = [this] {
    active_.fetch_sub(1, std::memory_order_relaxed);
    plan_->limit().leave();
  };
  enter();
  while (true) {
    const Advanced advanced = advance();
    if (advanced == Advanced::ended) {
      leave();
      return ended_in_team();
    }
    // Where there are too many threads, one that is computing a node goes on with the next.
    if (advanced == Advanced::waits || (has_too_many_threads() && is_anything_computed_apart())) {
      leave();
      uint8_t holder = kHeld;
      // From here on another thread may hold it.
      if (holder_.compare_exchange_strong(holder, kFree)) return;
      enter();
      // There is mail. With a node to compute, it is left to the next holder: the limit may be exceeded for long.
      if (advanced == Advanced::waits) continue;
    }
    std::shared_ptr<Apart> apart = std::move(next_apart_);
    computed_apart_.push_back(apart);
    ++outstanding_;
    if (stats_) begin_observed_apart(*apart);
    const bool waits = apart->node->may_wait;
    share_taken();
    let_go(*apart);
    if (waits) leave();  // It need not use a core.
    if (driver_ != nullptr)
      driver_->compute_apart(waits, [&] { compute_apart(*apart); });
    else
      compute_apart(*apart);
    if (waits) enter();
    Completion completion{apart->started, nullptr, Tensor()};
    if (stats_) {
      completion.time = TraceClock::now();
      completion.thread = StepStats::this_thread();
    }
    completion.apart = std::move(apart);
    leave();
    {
      std::lock_guard lock(mutex_);
      inbox_.push_back(std::move(completion));
    }
    if (!take_or_notify()) return;
    taken_ = taken;
    enter();
  }
}

bool Executor::allows_another_thread() const {
  return plan_->limit().allows_another() && (driver_ == nullptr || driver_->active() < plan_->limit().most());
}

bool Executor::has_too_many_threads() const {
  return plan_->limit().is_exceeded() || (driver_ != nullptr && driver_->active() > plan_->limit().most());
}

bool Executor::is_anything_computed_apart() const {
  return std::any_of(computed_apart_.begin(), computed_apart_.end(),
                     [](const auto& each) { return !each->node->may_wait; });
}

void Executor::begin_observed_apart(Apart& apart) {
  const NodeItem& node = *apart.node;
  const int32_t record = stats_->begin(node.def, node.kernel.get(), apart.inputs.data(), called_);
  apart.started.record = record;
  apart.caller = stats_->caller();
  stats_->set_apart(record);
}

void Executor::take_apart(const NodeItem& node, Tensor* inputs, FrameIteration iteration, const Started& started) {
  auto apart = std::make_shared<Apart>();
  apart->node = &node;
  apart->started = started;
  apart->iteration = iteration;
  apart->outputs.resize(node.num_outputs);
  apart->resources = resources_of(node, inputs);
  // Constants stay in their slots.
  for (int i = 0; i < node.num_inputs; ++i) {
    const bool kept = i < 64 && (node.constant_inputs >> i & 1) != 0;
    apart->inputs.push_back(kept ? inputs[i] : std::move(inputs[i]));
  }
  if (conflicts(node, apart->resources))
    parked_.push_back(std::move(apart));
  else if (node.may_wait)
    waiting_.push_back(std::move(apart));
  else
    next_apart_ = std::move(apart);
}

bool Executor::choose_apart() {
  if (interrupted()) {
    next_apart_ = nullptr;
    waiting_.clear();
    parked_.clear();
    return false;
  }
  if (next_apart_) return true;
  for (auto& each : parked_) {
    if (conflicts(*each->node, each->resources)) continue;
    next_apart_ = std::move(each);
    std::erase(parked_, nullptr);
    return true;
  }
  if (waiting_.empty()) return false;
  next_apart_ = std::move(waiting_.front());
  waiting_.erase(waiting_.begin());
  return true;
}

bool Executor::conflicts(const NodeItem& node, const Tensor* inputs) const {
  // A sequential plan has an order of its nodes that use resources.
  if (computed_apart_.empty() || plan_->sequential() || !uses_resources(node)) return false;
  return conflicts(node, resources_of(node, inputs));
}

bool Executor::conflicts(const NodeItem& node, std::span<const Resource* const> resources) const {
  if (plan_->sequential() || !uses_resources(node)) return false;
  auto shared = [&](const Apart& other) {
    return std::any_of(resources.begin(), resources.end(), [&](const Resource* each) {
      return std::find(other.resources.begin(), other.resources.end(), each) != other.resources.end();
    });
  };
  for (const auto& other : computed_apart_) {
    const ResourceUse uses = other->node->uses;
    if (node.uses == ResourceUse::reads && uses == ResourceUse::reads) continue;
    if (node.uses == ResourceUse::any || uses == ResourceUse::any ? uses_resources(*other->node) : shared(*other))
      return true;
  }
  return false;
}

bool Executor::is_too_far_ahead() const {
  if (computed_apart_.empty()) return false;
  const Account* account = plan_->device().account;
  return account != nullptr && account->bytes_in_use() - bytes_before_ > plan_->pace().bytes_ahead();
}

void Executor::let_go(const Apart& apart) {
  const bool more = state_->can_start() || !waiting_.empty();
  // A node that may wait needs another thread in any case; else a thread that has computed a node goes on.
  const bool finds_thread = apart.node->may_wait || allows_another_thread();
  if (more && !is_too_far_ahead() && finds_thread) return pass_on();
  uint8_t holder = kHeld;
  if (holder_.compare_exchange_strong(holder, kFree)) return;
  if (finds_thread) return pass_on();
  holder_.store(kFree);  // The next holder finds what is in the inbox.
}

bool Executor::grant_to_caller() {
  uint8_t idle = kIdle;
  if (!caller_is_.compare_exchange_strong(idle, kGranted)) return false;
  {
    std::lock_guard lock(mutex_);
  }
  wake_.notify_all();
  return true;
}

void Executor::pass_on() {
  if (driver_ != nullptr) {
    Taken self{this};
    return driver_->share(self);
  }
  if (!grant_to_caller()) HelperPool::shared().submit([self = shared_from_this()] { self->resume(); });
}

void Executor::compute_apart(Apart& apart) {
  const NodeItem& node = *apart.node;
  AccountScope account(plan_->device().account);
  FlushDenormals flush;
  apart.inside = apart.caller.begin();
  const OnThread outer = std::exchange(apart_, {this, apart.inside.get()});
  MemoryTrace* const traced = memory_trace;
  if (stats_) memory_trace = &apart.memory;
  if (!interrupted()) {
    try {
      const ParallelMeter meter;
      const int64_t before = measured_ ? steady_nanoseconds() : 0;
      compute_node({plan_->device(), *this}, node.def, *node.kernel, apart.inputs.data(), apart.outputs.data(),
                   apart.iteration);
      if (measured_) apart.sample = {steady_nanoseconds() - before, meter.elsewhere(), 1};
    } catch (const std::exception& exception) {
      abort(error_of(exception));
    }
  }
  memory_trace = traced;
  apart_ = outer;
  apart.caller.end(std::move(apart.inside));
  apart.inputs.clear();
}

void Executor::ended_apart(const Apart& apart) {
  std::erase_if(computed_apart_, [&](const auto& each) { return each.get() == &apart; });
  if (stats_) stats_->allocated(apart.started.record, apart.memory);
  if (!measured_) return;
  Pace::Sample& sample = samples_[plan_->index(*apart.node)];
  sample.time += apart.sample.time;
  sample.elsewhere += apart.sample.elsewhere;
  sample.runs += apart.sample.runs;
}

bool Executor::wait_for_state() {
  uint8_t busy = kBusy;
  if (!caller_is_.compare_exchange_strong(busy, kIdle)) return false;
  auto is_called = [this] { return caller_is_.load(std::memory_order_acquire) != kIdle; };
  const int64_t until = steady_nanoseconds() + kSpin;
  while (!is_called() && steady_nanoseconds() < until)
    for (int i = 0; i < 64 && !is_called(); ++i) __builtin_ia32_pause();
  while (!is_called()) {
    std::unique_lock lock(mutex_);
    if (wake_.wait_for(lock, kPollInterval, is_called) || !poll_) continue;
    lock.unlock();
    try {
      poll_();
    } catch (const Error& error) {
      abort(error);
    }
  }
  uint8_t granted = kGranted;
  return caller_is_.compare_exchange_strong(granted, kBusy);
}

void Executor::ended_in_team() {
  if (finished_) return finish();
  caller_is_.store(kOver, std::memory_order_release);
  {
    std::lock_guard lock(mutex_);
  }
  wake_.notify_all();
}

}  // namespace thalweg
