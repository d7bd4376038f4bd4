// Executor: drives one step over a plan.
//
// One thread at a time drives: it runs ready nodes inline, in the state's order. A kernel that is asynchronous reports
// its end from any thread by posting it to the inbox; the driver picks that up. When nothing is ready and asynchronous
// work is under way, `run` waits on the inbox, while a step started with `start` gives its thread back and is resumed
// on the thread pool by the next post: blocked steps hold no threads. The first error wins: it cancels the step, and
// the step ends when all asynchronous kernels have reported.
//
// An executor of a joint step is driven by one thread at a time, its holder. Without one it is free; a thread that
// sends it a value takes it, puts the value where it is read, and drives it when it has nothing else to do, or leaves
// it to another thread. If it has a holder already, the value goes through the inbox.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "executor/plan.h"
#include "executor/run_node.h"
#include "executor/state.h"
#include "executor/stats.h"
#include "executor/step.h"

namespace thalweg {

class Executor;

// Executors that a thread has taken and will drive when the present one waits.
using Taken = std::vector<Executor*>;

// Finds threads for executors that can go on, in place of the thread pool: a step over several devices is one.
class Driver {
 public:
  virtual ~Driver() = default;
  // The executor, which has no holder, can be resumed; callable from any thread.
  virtual void ready(Executor& executor) = 0;
  // The calling thread is about to run a node: other threads must drive the executors that it has taken.
  virtual void share(Taken& taken) = 0;
  virtual Executor& part(int32_t i) = 0;
};

class Executor final : public Step, public std::enable_shared_from_this<Executor> {
 public:
  // `id` is the step's number (executor/step.h).
  explicit Executor(std::shared_ptr<const Plan> plan, int64_t id = 0) : Step(id), plan_(std::move(plan)) {}
  ~Executor() override;

  // Records what every node did, and checks it. `called`: as part of a function that the innermost begun node calls.
  void observe(StepStats* stats, bool called = false) {
    stats_ = stats;
    called_ = called;
    if (stats != nullptr) stats->prepare(*plan_, id());
  }
  // The observer, if it records the nodes that run within nodes of this step; else null.
  StepStats* observer() const { return stats_ != nullptr && stats_->looks_inside() ? stats_ : nullptr; }
  // Called now and then by the driving thread of `run`; throwing Error aborts the step.
  void poll_with(std::function<void()> poll) { poll_ = std::move(poll); }
  // Must live as long as the executor.
  void drive_with(Driver* driver) { driver_ = driver; }

  // Runs the whole step on this thread. The fetched tensors; throws the step's first error.
  std::vector<Tensor> run(std::span<Tensor> feeds);
  // Begins the step on the thread pool, or the driver; `finished` is called there, once, with the error if there was
  // one. Whenever the step waits it gives the thread back, to be resumed.
  using Finished = std::function<void(std::optional<Error>, std::vector<Tensor>)>;
  void start(std::vector<Tensor> feeds, Finished finished);
  // The same without a thread: the caller has to `resume` it. False, and the executor is free, if it must be handed a
  // value first.
  bool prepare(std::span<Tensor> feeds, Finished finished);
  // For the driver: goes on until the step ends or waits. Executors that values were handed over to are added to
  // `taken`.
  void resume(Taken* taken = nullptr);

  void abort(const Error& error) override;

  void tick() override;
  Hold hold() override;

  // For the states: runs one node. True if the outputs are there now, false if the kernel is asynchronous and will post
  // them. Errors name the node.
  [[gnu::always_inline]] bool execute(const NodeItem& node, Tensor* inputs, Tensor* outputs, FrameIteration iteration,
                                      const Started& started) {
    if (node.kind >= NodeKind::async) [[unlikely]]
      return execute_async(node, inputs, outputs, iteration, started);
    share_taken();
    compute_node(site(), node.def, *node.kernel, inputs, outputs, iteration);
    if ((++ticks_ & 1023) == 0) tick();
    return true;
  }
  // For the states: whether the inbox may hold completions.
  bool has_mail() const { return holder_.load(std::memory_order_relaxed) == kMail; }
  const Plan& plan() const { return *plan_; }

 private:
  struct Completion {
    Started started;
    std::shared_ptr<AsyncContext> context;  // or none, and the only output:
    Tensor value;
    int64_t time = 0;  // when and where it ended, if the step is observed
    int32_t thread = 0;
    bool handed_over = false;
    Tensor* outputs() { return context ? context->outputs() : &value; }
  };
  // Whether the executor has a holder; kMail: it has, and the inbox may hold completions.
  enum Holder : uint8_t { kFree, kHeld, kMail };
  NodeSite site() { return {plan_->device(), *this, stats_, called_}; }
  // While this thread runs a node, other threads must drive the executors that it has taken.
  void share_taken() {
    if (taken_ != nullptr && !taken_->empty()) driver_->share(*taken_);
  }
  // The same for a node that may report its end later, or hands its value over to another executor.
  bool execute_async(const NodeItem& node, Tensor* inputs, Tensor* outputs, FrameIteration iteration,
                     const Started& started);
  void start_async(const NodeItem& node, Tensor* inputs, FrameIteration iteration, const Started& started);
  void await(const NodeItem& node, FrameIteration iteration, const Started& started);
  // An asynchronous kernel has ended, on any thread: `context` has its outputs, or it has a single one, `value`.
  void ended(const Started& started, std::optional<Error> error, std::shared_ptr<AsyncContext> context, Tensor value);
  void post(Completion completion);
  // Called after a completion was put into the inbox. True if the executor was free: now the caller holds it.
  bool take_or_notify();
  void hand_over(const NodeItem& send, Tensor value);
  // Takes a value from the thread that drives `from`.
  void receive(Executor& from, const NodeItem& node, Tensor value);
  void accept(const NodeItem& node, Tensor value);
  // Drives until the step is finished (true) or waits for asynchronous work (false).
  bool advance();
  void make_resume();
  std::vector<Tensor> collect();
  // Drops the tensors that the step left in its state, and keeps the state for another step.
  void give_back();

  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<State> state_;
  StepStats* stats_ = nullptr;
  bool called_ = false;
  Driver* driver_ = nullptr;
  std::function<void()> poll_;
  std::chrono::steady_clock::time_point last_poll_{};
  uint32_t ticks_ = 0;

  // Touched by the holder only:
  Taken* taken_ = nullptr;
  std::vector<Completion> arrived_;
  int64_t outstanding_ = 0;  // asynchronous kernels that have not reported
  int64_t expected_ = 0;     // values that are to be handed over
  Finished finished_;

  std::atomic<uint8_t> holder_{kHeld};
  std::mutex mutex_;  // guards everything below
  std::condition_variable wake_;
  std::vector<Completion> inbox_;
  std::optional<Error> error_;
};

// The observer of a step, if it records the nodes that run within nodes.
inline StepStats* observer_of(Step& step) {
  auto* executor = dynamic_cast<Executor*>(&step);
  return executor != nullptr ? executor->observer() : nullptr;
}

// The node that the calling thread, which drives the step, is running: for calls that it does not wait for.
inline StepStats::Caller caller_in(Step& step) {
  StepStats* stats = observer_of(step);
  return stats != nullptr ? stats->caller() : StepStats::Caller();
}

}  // namespace thalweg
