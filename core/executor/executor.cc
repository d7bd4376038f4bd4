// Driving a step: dispatch, asynchronous completion, errors and cancellation.
#include "executor/executor.h"

#include "thread/thread_pool.h"

namespace thalweg {
namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(50);

}  // namespace

Executor::~Executor() {
  if (state_) {
    state_->clear();
    plan_->give_state(std::move(state_));
  }
}

void Executor::abort(const Error& error) {
  {
    std::lock_guard lock(mutex_);
    if (!error_) error_ = error;
    interrupted_.store(true);
  }
  cancellation().cancel();
  if (rendezvous()) rendezvous()->abort(error);
  wake_.notify_all();
}

bool Executor::execute_observed(const NodeItem& node, Tensor* inputs, Tensor* outputs, uint64_t iteration,
                                const Started& starting) {
  Started started = starting;
  if (stats_) started.record = stats_->begin(node, inputs, called_);
  if (node.kind == NodeKind::async && !node.prompt) {
    if (stats_) stats_->leave(started.record);
    start_async(node, inputs, iteration, started);
    return false;
  }
  Context ctx(node.def, plan_->device(), *this, inputs, outputs, iteration);
  if (!node.prompt) {
    node.kernel->compute(ctx);
  } else if (!node.prompt->attempt(ctx)) {
    if (stats_) stats_->leave(started.record);
    if (node.arriving)
      await(node, iteration, started);
    else
      start_async(node, inputs, iteration, started);
    return false;
  }
  if (stats_) stats_->end(started.record, node, outputs);
  return true;
}

void Executor::start_async(const NodeItem& node, Tensor* inputs, uint64_t iteration, const Started& started) {
  {
    std::lock_guard lock(mutex_);
    ++outstanding_;
  }
  // The kernel's callback keeps the executor alive until it has reported.
  auto self = shared_from_this();
  auto holder = std::make_shared<std::shared_ptr<AsyncContext>>();
  auto context = std::make_shared<AsyncContext>(node.def, plan_->device(), *this, inputs, iteration,
                                                [self, started, holder](AsyncContext&, std::optional<Error> error) {
                                                  std::shared_ptr<AsyncContext> mine = std::move(*holder);
                                                  if (error) {
                                                    error->set_node(started.node->def.name, started.node->def.op);
                                                    self->abort(*error);
                                                  }
                                                  self->post({started, std::move(mine), Tensor()});
                                                });
  *holder = context;
  // Bad input is reported like any other failure: the step waits for what this kernel has to say.
  try {
    static_cast<AsyncKernel&>(*node.kernel).start(context);
  } catch (const Error& error) {
    context->fail(error);
  } catch (const std::exception& error) {
    context->fail(Error(Code::internal, error.what()));
  }
}

void Executor::await(const NodeItem& node, uint64_t iteration, const Started& started) {
  {
    std::lock_guard lock(mutex_);
    ++outstanding_;
  }
  node.arriving->await(*this, iteration,
                       [self = shared_from_this(), started](std::optional<Error> error, Tensor value) {
                         if (error) {
                           error->set_node(started.node->def.name, started.node->def.op);
                           self->abort(*error);
                         }
                         self->post({started, nullptr, std::move(value)});
                       });
}

void Executor::post(Completion completion) {
  if (stats_) {
    completion.time = TraceClock::now();
    completion.thread = StepStats::this_thread();
  }
  std::lock_guard lock(mutex_);
  inbox_.push_back(std::move(completion));
  if (parked_) {
    parked_ = false;
    make_resume();
  } else {
    wake_.notify_all();
  }
}

void Executor::tick() {
  if (!poll_) return;
  // Polling may have to wait for the GIL, so it goes by the clock and never happens in a short step.
  auto now = std::chrono::steady_clock::now();
  if (last_poll_ == std::chrono::steady_clock::time_point{}) last_poll_ = now;
  if (now - last_poll_ < kPollInterval) return;
  last_poll_ = now;
  poll_();
}

bool Executor::advance() {
  std::vector<Completion> arrived;
  while (true) {
    if (!interrupted()) {
      try {
        for (Completion& c : arrived) {
          if (stats_) stats_->arrived(c.started.record, *c.started.node, c.outputs(), c.time, c.thread);
          state_->complete(c.started, c.outputs());
        }
        state_->drain(*this);
      } catch (const Error& error) {
        abort(error);
      } catch (const std::bad_alloc&) {
        abort(Error(Code::resource_exhausted, "out of memory"));
      } catch (const std::exception& error) {
        abort(Error(Code::internal, error.what()));
      }
      if (stats_ && interrupted()) stats_->interrupt();
    }
    if (plan_->sequential()) return true;
    std::lock_guard lock(mutex_);
    outstanding_ -= static_cast<int64_t>(arrived.size());
    arrived.clear();
    if (outstanding_ == 0) return true;
    if (inbox_.empty()) return false;
    arrived.swap(inbox_);
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

std::vector<Tensor> Executor::run(std::span<Tensor> feeds) {
  state_ = plan_->take_state();
  state_->begin(feeds);
  while (!advance()) {
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, kPollInterval, [this] { return !inbox_.empty(); });
    if (inbox_.empty() && poll_) {
      lock.unlock();
      try {
        poll_();
      } catch (const Error& error) {
        abort(error);
      }
    }
  }
  return collect();
}

void Executor::start(std::vector<Tensor> feeds, Finished finished) {
  finished_ = std::move(finished);
  state_ = plan_->take_state();
  state_->begin(feeds);
  make_resume();
}

void Executor::make_resume() {
  if (driver_ != nullptr)
    driver_->ready(*this);
  else
    ThreadPool::shared().submit([self = shared_from_this()] { self->resume(); });
}

void Executor::resume() {
  while (!advance()) {
    std::lock_guard lock(mutex_);
    if (inbox_.empty()) {
      parked_ = true;
      return;
    }
  }
  std::optional<Error> error;
  std::vector<Tensor> fetched;
  try {
    fetched = collect();
  } catch (const Error& e) {
    error = e;
  }
  std::exchange(finished_, nullptr)(std::move(error), std::move(fetched));
}

}  // namespace thalweg
