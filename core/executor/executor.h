// Executor: drives one step over a plan.
//
// One thread at a time drives, the holder: it runs ready nodes inline, in the state's order. A kernel that is
// asynchronous reports its end from any thread by posting it to the inbox; the holder picks that up. When nothing is
// ready and asynchronous work is under way, `run` waits on the inbox, while a step started with `start` gives its
// thread back and is resumed on the thread pool by the next post: blocked steps hold no threads. The first error wins:
// it cancels the step, and the step ends when all asynchronous kernels have reported.
//
// A step that is worth it (executor/pace.h) has a team of threads. Its holder takes a heavy node away from the state,
// passes the state on to another thread if there is more to run, else leaves the executor free, and computes the node
// apart. Then it posts the outputs, and is the holder again if the executor is free. So threads wait for each other
// only where values are missing. They start nodes in the order of the schedule, and no further ones while the step
// holds much more memory than it would with one thread. A node that may wait for others of the step is always computed
// apart while there is something else to do, however many threads that takes.
//
// An executor of a joint step is driven by one thread at a time. Without a holder it is free; a thread that sends it a
// value takes it, puts the value where it is read, and drives it when it has nothing else to do, or leaves it to
// another thread. If it has a holder already, the value goes through the inbox. It may have a team, too: the driver
// finds the threads.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
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
  // Computes a node of a team on the calling thread, which holds no executor meanwhile. `waits`: the node may wait for
  // others of the step, and another thread has to come for these.
  virtual void compute_apart(bool waits, const std::function<void()>& compute) = 0;
  // How many threads drive executors or compute nodes now.
  virtual int active() const = 0;
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
  // The observer, if it records the nodes that run within nodes of this step; else null. For the thread that runs one.
  StepStats* observer() const {
    if (apart_.executor == this) [[unlikely]]
      return apart_.inside;
    return stats_ != nullptr && stats_->looks_inside() ? stats_ : nullptr;
  }
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
    if (node.kind >= NodeKind::async || is_special_) [[unlikely]]
      return execute_specially(node, inputs, outputs, iteration, started);
    share_taken();
    compute_node(site(), node.def, *node.kernel, inputs, outputs, iteration);
    if ((++ticks_ & 1023) == 0) tick();
    return true;
  }
  // For the states: whether the inbox may hold completions, or the thread has to run a node apart, or is too far ahead.
  bool wants_thread() const {
    return holder_.load(std::memory_order_relaxed) == kMail || (team_ && (next_apart_ || is_too_far_ahead()));
  }
  const Plan& plan() const { return *plan_; }
  // Whether several threads may run nodes of this step; known from its beginning.
  bool has_team() const { return team_.load(std::memory_order_relaxed); }

 private:
  // A node that is computed apart from the state.
  struct Apart {
    const NodeItem* node;
    Started started;
    FrameIteration iteration;
    std::vector<Tensor> inputs, outputs;  // touched by the thread that computes it
    std::vector<const Resource*> resources;
    Pace::Sample sample;
    MemoryTrace memory;                 // if the step is observed
    std::shared_ptr<StepStats> inside;  // observes the nodes within
    StepStats::Caller caller;
  };
  struct Completion {
    Started started;
    std::shared_ptr<AsyncContext> context;  // or none, and the only output:
    Tensor value;
    int64_t time = 0;  // when and where it ended, if the step is observed
    int32_t thread = 0;
    bool handed_over = false;
    std::shared_ptr<Apart> apart = nullptr;
    Tensor* outputs() { return apart ? apart->outputs.data() : context ? context->outputs() : &value; }
  };
  // Whether the executor has a holder; kMail: it has, and the inbox may hold completions.
  enum Holder : uint8_t { kFree, kHeld, kMail };
  NodeSite site() { return {plan_->device(), *this, stats_, called_}; }
  // While this thread runs a node, other threads must drive the executors that it has taken.
  void share_taken() {
    if (taken_ != nullptr && !taken_->empty()) driver_->share(*taken_);
  }
  // The same for other nodes than synchronous ones, and in steps that are measured or have a team.
  bool execute_specially(const NodeItem& node, Tensor* inputs, Tensor* outputs, FrameIteration iteration,
                         const Started& started);
  void execute_measured(const NodeItem& node, Tensor* inputs, Tensor* outputs, FrameIteration iteration);
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
  // Drives until the step has ended, waits for other threads, or this thread is to compute a node apart.
  enum class Advanced : uint8_t { ended, waits, apart };
  Advanced advance();
  // Before the first node: chooses how the step is run, and fills the feeds.
  void begin(std::span<Tensor> feeds);
  // After the last node, unless the step has failed: tells the plan what was measured.
  void note_pace();

  // For teams (executor/team.cc).
  // Drives the step on one of several threads, which holds the executor; returns when the step has ended, or this
  // thread does not hold it any more. The thread that called `run` stays until the end.
  void drive_in_team(Taken* taken = nullptr);
  void run_in_team();
  // Whether the limit of threads, which the parts of a joint step share, allows one more, or is exceeded.
  bool allows_another_thread() const;
  bool has_too_many_threads() const;
  void take_apart(const NodeItem& node, Tensor* inputs, FrameIteration iteration, const Started& started);
  // Finds the next node to compute apart; false if there is none.
  bool choose_apart();
  // Lets other threads have the state while this one computes a node.
  void let_go(const Apart& node);
  // Passes the state on to the thread that called `run`, if that has nothing to do.
  bool grant_to_caller();
  // Passes the state on to a thread that has nothing to do.
  void pass_on();
  void compute_apart(Apart& apart);
  void begin_observed_apart(Apart& apart);
  // Whether a thread will come back soon.
  bool is_anything_computed_apart() const;
  // The holder knows of its end.
  void ended_apart(const Apart& apart);
  // Whether the node uses a resource that one that is being computed apart uses, too, and one of them changes it.
  bool conflicts(const NodeItem& node, const Tensor* inputs) const;
  bool conflicts(const NodeItem& node, std::span<const Resource* const> resources) const;
  bool is_too_far_ahead() const;
  // The thread that called `run` waits until it gets the state (true) or the step has ended.
  bool wait_for_state();
  void ended_in_team();
  void make_resume();
  std::vector<Tensor> collect();
  // The end of a step that was started: tells the starter.
  void finish();
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
  std::atomic<bool> team_{false};  // read by `abort`, which may come before the step begins
  bool measured_ = false;
  bool is_special_ = false;  // either
  bool in_order_ = false;    // a sequential plan on one thread
  std::thread::id caller_;   // of `run`
  int64_t began_ = 0;        // nanoseconds, in a team
  int64_t bytes_before_ = 0, most_bytes_ = 0;
  std::vector<Pace::Sample> samples_;

  // Touched by the holder only:
  Taken* taken_ = nullptr;
  std::vector<Completion> arrived_;
  std::shared_ptr<Apart> next_apart_;
  std::vector<std::shared_ptr<Apart>> computed_apart_;  // now
  // Nodes that may wait, before they are computed apart. (An empty deque would allocate memory in every step.)
  std::vector<std::shared_ptr<Apart>> waiting_;
  std::vector<std::shared_ptr<Apart>> parked_;  // until nodes end with which they share resources
  // Asynchronous kernels that have not reported, and nodes that are computed apart. (Kernels may add to it.)
  std::atomic<int64_t> outstanding_{0};
  int64_t expected_ = 0;  // values that are to be handed over
  Finished finished_;

  // In a team: the threads that drive the step or compute a node, and what the thread that called `run` does.
  std::atomic<int> active_{0};
  enum Caller : uint8_t { kBusy, kIdle, kGranted, kOver };
  std::atomic<uint8_t> caller_is_{kBusy};
  struct OnThread {
    const Executor* executor = nullptr;
    StepStats* inside = nullptr;
  };
  static thread_local OnThread apart_;  // what this thread computes apart

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
