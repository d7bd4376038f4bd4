// Driving a step: dispatch, asynchronous completion, errors and cancellation.
#include "executor/executor.h"

#include <algorithm>

#include "thread/denormals.h"
#include "thread/parallel.h"
#include "thread/run_soon.h"

namespace thalweg {
namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(50);

}  // namespace

Executor::~Executor() { give_back(); }

void Executor::give_back() {
  if (!state_) return;
  state_->clear();
  plan_->give_state(std::move(state_));
}

void Executor::abort(const Error& error) {
  {
    std::lock_guard lock(mutex_);
    if (!error_) error_ = error;
    interrupted_.store(true);
  }
  cancellation().cancel();
  if (rendezvous()) rendezvous()->abort(error);
  // The values that this executor expects from other executors may never come.
  if (take_or_notify()) make_resume();
}

bool Executor::execute_specially(const NodeItem& node, Tensor* inputs, Tensor* outputs, FrameIteration iteration,
                                 const Started& started) {
  if (node.kind >= NodeKind::async) return execute_async(node, inputs, outputs, iteration, started);
  if (team_ && node.kind == NodeKind::plain &&
      (node.may_wait || plan_->pace().is_heavy(plan_->index(node)) || conflicts(node, inputs))) {
    take_apart(node, inputs, iteration, started);
    return false;
  }
  share_taken();
  if (measured_)
    execute_measured(node, inputs, outputs, iteration);
  else
    compute_node(site(), node.def, *node.kernel, inputs, outputs, iteration);
  if ((++ticks_ & 1023) == 0) tick();
  return true;
}

void Executor::execute_measured(const NodeItem& node, Tensor* inputs, Tensor* outputs, FrameIteration iteration) {
  Pace::Sample& sample = samples_[plan_->index(node)];
  const ParallelMeter meter;
  const int64_t before = steady_nanoseconds();
  compute_node(site(), node.def, *node.kernel, inputs, outputs, iteration);
  sample.time += steady_nanoseconds() - before;
  sample.elsewhere += meter.elsewhere();
  ++sample.runs;
  if (const Account* account = plan_->device().account) most_bytes_ = std::max(most_bytes_, account->bytes_in_use());
}

bool Executor::execute_async(const NodeItem& node, Tensor* inputs, Tensor* outputs, FrameIteration iteration,
                             const Started& starting) {
  if (node.kind == NodeKind::handover)
    return run_node(site(), node.def, node.kernel.get(), inputs, outputs, iteration, [&](Context&, int32_t) {
      hand_over(node, std::move(inputs[0]));
      return true;
    });
  share_taken();
  return run_node(site(), node.def, node.kernel.get(), inputs, outputs, iteration, [&](Context& ctx, int32_t record) {
    if (node.prompt != nullptr && node.prompt->attempt(ctx)) return true;
    Started started = starting;
    started.record = record;
    if (node.arriving != nullptr)
      await(node, iteration, started);
    else
      start_async(node, inputs, iteration, started);
    return false;
  });
}

void Executor::start_async(const NodeItem& node, Tensor* inputs, FrameIteration iteration, const Started& started) {
  ++outstanding_;
  // The kernel's callback keeps the executor alive until it has reported.
  auto self = shared_from_this();
  auto holder = std::make_shared<std::shared_ptr<AsyncContext>>();
  auto context = std::make_shared<AsyncContext>(node.def, plan_->device(), *this, inputs, iteration,
                                                [self, started, holder](AsyncContext&, std::optional<Error> error) {
                                                  self->ended(started, std::move(error), std::move(*holder), Tensor());
                                                });
  *holder = context;
  // Bad input is reported like any other failure: the step waits until this kernel reports.
  try {
    static_cast<AsyncKernel&>(*node.kernel).start(context);
  } catch (const std::exception& exception) {
    context->fail(error_of(exception));
  }
}

void Executor::await(const NodeItem& node, FrameIteration iteration, const Started& started) {
  ++outstanding_;
  node.arriving->await(*this, iteration,
                       [self = shared_from_this(), started](std::optional<Error> error, Tensor value) {
                         self->ended(started, std::move(error), nullptr, std::move(value));
                       });
}

void Executor::ended(const Started& started, std::optional<Error> error, std::shared_ptr<AsyncContext> context,
                     Tensor value) {
  if (error) {
    error->set_node(started.node->def.name, started.node->def.op);
    abort(*error);
  }
  post({started, std::move(context), std::move(value)});
}

Step::Hold Executor::hold() {
  ++outstanding_;
  struct Once {
    std::atomic<bool> over{false};
    std::atomic<int64_t> token{-1};
    std::shared_ptr<Executor> self;  // reset at the end: a device that never reports must not keep a step alive
  };
  auto once = std::make_shared<Once>();
  once->self = shared_from_this();
  auto finish = [once](std::optional<Error> error) {
    if (once->over.exchange(true)) return;
    auto self = std::move(once->self);
    self->cancellation().remove(once->token);
    if (error) self->abort(*error);
    self->post({Started{nullptr, nullptr, nullptr}, nullptr, Tensor()});
  };
  once->token = cancellation().add([finish] { finish(std::nullopt); });
  if (once->token < 0) finish(std::nullopt);
  return finish;
}

void Executor::post(Completion completion) {
  if (stats_) {
    completion.time = TraceClock::now();
    completion.thread = StepStats::this_thread();
  }
  {
    std::lock_guard lock(mutex_);
    inbox_.push_back(std::move(completion));
  }
  if (take_or_notify()) make_resume();
}

bool Executor::take_or_notify() {
  uint8_t holder = holder_.load();
  while (true) {
    // The holder clears the flag before it reads the inbox, and so will see the new completion.
    if (holder == kMail) return false;
    const bool free = holder == kFree;
    if (!holder_.compare_exchange_weak(holder, kMail)) continue;
    if (!free && !team_) {
      // `run` looks at the flag with the lock before it sleeps. The woken thread needs the lock at once: it is free
      // again. (The caller keeps the executor alive.)
      {
        std::lock_guard lock(mutex_);
      }
      wake_.notify_all();
    }
    return free;
  }
}

void Executor::hand_over(const NodeItem& send, Tensor value) {
  Executor& to = driver_->part(send.to_part);
  to.receive(*this, to.plan_->node(send.to_node), std::move(value));
}

void Executor::receive(Executor& from, const NodeItem& node, Tensor value) {
  uint8_t holder = kFree;
  const bool takes = holder_.compare_exchange_strong(holder, kHeld);
  if (takes || std::find(from.taken_->begin(), from.taken_->end(), this) != from.taken_->end()) {
    accept(node, std::move(value));
    if (takes) from.taken_->push_back(this);
    return;
  }
  {
    std::lock_guard lock(mutex_);
    inbox_.push_back({{&node, nullptr, nullptr}, nullptr, std::move(value), 0, 0, true});
  }
  if (take_or_notify()) from.taken_->push_back(this);
}

void Executor::accept(const NodeItem& node, Tensor value) {
  --expected_;
  if (stats_ && !node.cut) stats_->received(node, value);
  state_->arrive(node, std::move(value));
}

void Executor::tick() {
  if (!poll_) return;
  if (team_ && std::this_thread::get_id() != caller_) return;  // The caller looks for itself.
  // Polling may have to wait for the GIL, so it happens at intervals, and never in a short step.
  auto now = std::chrono::steady_clock::now();
  if (last_poll_ == std::chrono::steady_clock::time_point{}) last_poll_ = now;
  if (now - last_poll_ < kPollInterval) return;
  last_poll_ = now;
  poll_();
}

Executor::Advanced Executor::advance() {
  // Host memory used on behalf of a device with its own memory is not charged to the device's account.
  AccountScope account(plan_->device().memory ? nullptr : plan_->device().account);
  while (true) {
    if (!interrupted()) {
      try {
        for (Completion& c : arrived_) {
          if (c.started.node == nullptr) continue;  // work of a device that has ended
          if (c.handed_over) {
            accept(*c.started.node, std::move(c.value));
            continue;
          }
          if (c.apart) ended_apart(*c.apart);
          if (stats_) stats_->arrived(c.started.record, *c.started.node, c.outputs(), c.time, c.thread);
          state_->complete(c.started, c.outputs());
        }
        state_->drain(*this);
      } catch (const std::exception& exception) {
        abort(error_of(exception));
      }
      if (stats_ && interrupted()) stats_->interrupt();
    }
    if (in_order_) return Advanced::ended;
    for (const Completion& c : arrived_)
      if (!c.handed_over) --outstanding_;
    arrived_.clear();
    if (team_ && choose_apart()) return Advanced::apart;
    if (outstanding_ == 0 && (interrupted() || (expected_ == 0 && !state_->can_start()))) return Advanced::ended;
    uint8_t holder = kMail;
    if (!holder_.compare_exchange_strong(holder, kHeld)) return Advanced::waits;
    std::lock_guard lock(mutex_);
    arrived_.swap(inbox_);
  }
}

std::vector<Tensor> Executor::collect() {
  if (interrupted()) {
    std::lock_guard lock(mutex_);
    if (error_) throw *error_;
  }
  std::span<Tensor> fetched = state_->fetched();
  std::vector<Tensor> out(std::make_move_iterator(fetched.begin()), std::make_move_iterator(fetched.end()));
  for (size_t i = 0; i < out.size(); ++i)
    if (!out[i].defined())
      fail(Code::invalid_argument, "fetch ", i,
           " has no value: the node is in a branch that was not taken (its tensor is dead)");
  return out;
}

void Executor::begin(std::span<Tensor> feeds) {
  const Pace::Mode mode = plan_->pace().begin(finished_ != nullptr && driver_ == nullptr);
  measured_ = mode.measured && stats_ == nullptr;
  const bool team = mode.team && (stats_ == nullptr || stats_->allows_team() || plan_->pace().needs_team());
  team_.store(team, std::memory_order_relaxed);
  is_special_ = measured_ || team;
  if (is_special_) {
    const Account* account = plan_->device().account;
    bytes_before_ = most_bytes_ = account != nullptr ? account->bytes_in_use() : 0;
    began_ = steady_nanoseconds();
  }
  if (measured_) samples_.assign(plan_->nodes().size(), {});
  in_order_ = plan_->sequential() && !team;
  state_ = plan_->take_state();
  if (stats_ && !called_) stats_->fed(*plan_, feeds);
  state_->begin(feeds, team);
}

void Executor::note_pace() {
  if (!is_special_ || interrupted()) return;
  if (measured_)
    plan_->pace().end_measured(samples_, most_bytes_ - bytes_before_);
  else if (plan_->sequential() && stats_ == nullptr)
    plan_->pace().end_team(steady_nanoseconds() - began_);
}

std::vector<Tensor> Executor::run(std::span<Tensor> feeds) {
  FlushDenormals flush;
  begin(feeds);
  if (team_) {
    run_in_team();
    note_pace();
    return collect();
  }
  while (advance() != Advanced::ended) {
    std::unique_lock lock(mutex_);
    auto has_mail = [this] { return holder_.load() == kMail; };
    if (!wake_.wait_for(lock, kPollInterval, has_mail) && poll_) {
      lock.unlock();
      try {
        poll_();
      } catch (const Error& error) {
        abort(error);
      }
    }
  }
  note_pace();
  return collect();
}

void Executor::start(std::vector<Tensor> feeds, Finished finished) {
  prepare(feeds, std::move(finished));
  make_resume();
}

bool Executor::prepare(std::span<Tensor> feeds, Finished finished) {
  finished_ = std::move(finished);
  expected_ = plan_->num_arrivals();
  caller_is_.store(kOver, std::memory_order_relaxed);  // Nobody waits for the end.
  begin(feeds);
  if (expected_ == 0 || in_order_ || state_->can_start()) return true;
  // Unless the step was aborted meanwhile.
  uint8_t holder = kHeld;
  return !holder_.compare_exchange_strong(holder, kFree);
}

void Executor::make_resume() {
  if (driver_ != nullptr) return driver_->ready(*this);
  if (team_ && grant_to_caller()) return;
  run_soon(id(), [self = shared_from_this()] { self->resume(); });
}

void Executor::resume(Taken* taken) {
  std::optional<FlushDenormals> flush;
  if (driver_ == nullptr) flush.emplace();  // A driver's threads flush them all the time.
  if (driver_ == nullptr && !plan_->pace().is_short()) before_long_work();
  if (team_) return drive_in_team(taken);
  taken_ = taken;
  while (advance() != Advanced::ended) {
    uint8_t holder = kHeld;
    // From here on another thread may be the holder of this executor.
    if (holder_.compare_exchange_strong(holder, kFree)) return;
  }
  finish();
}

void Executor::finish() {
  note_pace();
  std::optional<Error> error;
  std::vector<Tensor> fetched;
  try {
    fetched = collect();
  } catch (const Error& e) {
    error = e;
  }
  // First, because the caller, which waits for the end, may ask how much memory the device's tensors hold.
  give_back();
  std::exchange(finished_, nullptr)(std::move(error), std::move(fetched));
}

}  // namespace thalweg
