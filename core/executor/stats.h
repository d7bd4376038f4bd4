// StepStats: an observer of a step: when each node ran, what it produced and, on request, which nodes produced the
// first NaN or infinity. A step without one pays one branch a node.
//
// Each executor has its own, and only the thread that drives the executor writes into it: there is no lock, and in the
// step nothing is copied but numbers and shapes. An asynchronous kernel's end is noted by the thread that posts it and
// written here when the driver picks it up. Names and protobufs are made after the step (executor/trace.h), from the
// NodeDefs that the records point to: plans must live until then, and the bodies of called functions are kept here.
//
// Nodes within nodes, those of lowered loops and of functions, have the record of the node around them as parent. The
// nodes of a function that an asynchronous node calls are driven by other threads, and have an observer of their own: a
// Caller, taken when the node starts, makes that observer, and returns it when the call has ended.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "executor/numeric_check.h"
#include "executor/plan.h"
#include "executor/trace_clock.h"
#include "memory/memory_trace.h"

namespace thalweg {

// One run of a node. Times are ticks of the TraceClock.
struct NodeRun {
  const NodeDef* def = nullptr;
  int64_t start = 0;
  int64_t end = 0;        // 0: it has not ended
  int64_t in_use = 0;     // bytes that tensors held when it had ended
  int64_t taken = 0;      // bytes that it allocated
  int64_t temporary = 0;  // bytes that it held at its peak beyond what it held at its end
  int32_t parent = -1;
  int32_t thread = 0;
  int32_t first_output = 0;
  int32_t num_outputs = 0;
  bool waits = false;   // asynchronous: the time from its start to its end, on any threads
  bool called = false;  // belongs to a function that the parent calls
};

struct OutputRun {
  Shape shape;
  const void* data = nullptr;
  int64_t bytes = 0;
  DType dtype = DType::invalid;
  int32_t slot = 0;
};

class StepStats {
 public:
  struct Options {
    bool numerics = false;
    bool details = true;  // outputs, memory, and nodes within nodes; otherwise only when each node ran
    bool runs = true;     // when each node ran
  };
  // So many runs are recorded; those that come after them are left out.
  static constexpr size_t kMostRuns = size_t{1} << 20;

  explicit StepStats(Options options) : options_(options) {
    if (options.numerics) numerics_ = std::make_unique<NumericCheck>();
  }
  StepStats(const StepStats&) = delete;

  void prepare(const Plan& plan, int64_t step) {
    runs_.reserve(plan.nodes().size());
    step_ = step;
  }

  // Values come from outside: the nodes that stand for them have records without a duration.
  void fed(const Plan& plan, std::span<const Tensor> feeds);

  // A node is about to run: the number of its record, or -1 if it is left out. The innermost begun node is its parent;
  // `called`: as the caller of the function that it belongs to.
  int32_t begin(const NodeDef& def, bool called = false) {
    if (!options_.runs) return next_++;
    if (runs_.size() >= kMostRuns) [[unlikely]] {
      ++left_out_;
      return -1;
    }
    const int32_t at = static_cast<int32_t>(runs_.size());
    NodeRun& run = runs_.emplace_back();
    run.def = &def;
    run.parent = open_;
    run.called = called;
    if (options_.details) remember_memory(run);
    open_ = at;
    run.start = TraceClock::now();
    return at;
  }
  int32_t begin(const NodeDef& def, Kernel* kernel, const Tensor* inputs, bool called) {
    const int32_t at = begin(def, called);
    if (numerics_) [[unlikely]]
      inputs_.emplace_back(at, numerics_->before(def, kernel, inputs));
    return at;
  }
  void end(int32_t at, int num_outputs, const Tensor* outputs) {
    const int64_t now = TraceClock::now();
    if (at < 0 || !options_.runs) [[unlikely]]
      return;
    NodeRun& run = runs_[at];
    run.end = now;
    run.thread = this_thread();
    open_ = run.parent;
    if (options_.details) {
      measure_memory(run);
      describe(run, num_outputs, outputs);
    }
  }
  void end(int32_t at, Kernel* kernel, Context& ctx, const Tensor* outputs) {
    end(at, ctx.num_outputs(), outputs);
    if (numerics_) [[unlikely]]
      check_outputs(at, ctx.def(), kernel, &ctx, outputs);
  }
  // The kernel that has begun, and has been started, goes on asynchronously.
  void leave(int32_t at) {
    if (at < 0 || !options_.runs) return;
    NodeRun& run = runs_[at];
    run.waits = true;
    open_ = run.parent;
    if (options_.details) measure_memory(run);
  }
  // The node that has begun is computed apart from the executor's state; `arrived` ends it, too.
  void set_apart(int32_t at) {
    leave(at);
    if (at >= 0 && options_.runs) runs_[at].waits = false;
  }
  // What a node allocated that was computed apart.
  void allocated(int32_t at, const MemoryTrace& memory) {
    if (at < 0 || !options_.runs || !options_.details) return;
    runs_[at].taken += memory.taken;
    runs_[at].temporary = memory.most - std::max<int64_t>(0, memory.held);
  }
  // An asynchronous kernel ended at this time on this thread.
  void arrived(int32_t at, const NodeItem& node, const Tensor* outputs, int64_t time, int32_t thread);
  // A value came from another executor of the step, which has recorded its size.
  void received(const NodeItem& node, const Tensor& value) {
    MemoryTrace* senders = memory_trace;
    end(begin(node.def), 1, &value);
    memory_trace = senders;
    if (numerics_) numerics_->received(value);
  }
  // An error is on its way out of the nodes that have begun.
  void interrupt() {
    open_ = -1;
    memory_trace = nullptr;
  }
  class Calls;
  // A node that calls a function. Copies are usable from any thread, also when the observer has gone.
  class Caller {
   public:
    Caller() = default;  // not observed
    // An observer for a call that is about to begin, or null.
    std::shared_ptr<StepStats> begin() const;
    // The call has ended: its observer is complete.
    void end(std::shared_ptr<StepStats> call) const;

   private:
    friend class StepStats;
    std::shared_ptr<Calls> calls_;
    int64_t within_ = 0;
    int32_t record_ = -1;
  };
  // The node that runs now; for the driving thread.
  Caller caller();

  // Keeps a function's body, which records point to, as long as the observer.
  void keep(std::shared_ptr<const void> body) { bodies_.insert(std::move(body)); }

  // Whether it can observe a step that several threads run, as it would run without an observer.
  bool allows_team() const { return options_.details && !numerics_; }
  // Whether it records the nodes that run within nodes.
  bool looks_inside() const { return options_.details || numerics_; }
  static int32_t this_thread();

  // After the step.
  int64_t step() const { return step_; }  // its number
  const std::vector<NodeRun>& runs() const { return runs_; }
  const std::vector<OutputRun>& outputs() const { return outputs_; }
  size_t left_out() const { return left_out_; }
  // Names of nodes of the program, and descriptions of their NaNs and infinities. Call it while plans and bodies live.
  std::vector<std::pair<std::string, std::string>> findings() const;
  // An asynchronous call that has ended.
  struct Call {
    int64_t number;  // from 1 on
    int64_t within;  // the call that the calling node belongs to, 0: none
    int32_t record;  // of the calling node
    std::shared_ptr<StepStats> stats;
  };
  // All calls within the step, also those within calls. Calls that end later are lost.
  std::vector<Call> take_calls();

 private:
  void check_outputs(int32_t at, const NodeDef& def, Kernel* kernel, Context* ctx, const Tensor* outputs);
  void describe(NodeRun& run, int num_outputs, const Tensor* outputs);
  // While a node runs, its record holds the thread's counters from before the run.
  void remember_memory(NodeRun& run) {
    if (open_ < 0) memory_trace = &memory_;
    run.taken = memory_.taken;
    run.temporary = memory_.held;
    run.in_use = memory_.most;
    memory_.most = memory_.held;
  }
  void measure_memory(NodeRun& run);

  Options options_;
  int64_t step_ = 0;
  std::unique_ptr<NumericCheck> numerics_;
  std::vector<NodeRun> runs_;
  std::vector<OutputRun> outputs_;
  int32_t next_ = 0;   // the next node's number where runs are not recorded
  int32_t open_ = -1;  // the innermost record that has not ended
  size_t left_out_ = 0;
  MemoryTrace memory_;
  std::vector<std::pair<int32_t, NumericCheck::Inputs>> inputs_;  // of nodes that have begun and are checked
  std::set<std::shared_ptr<const void>> bodies_;
  std::shared_ptr<Calls> calls_;  // of the whole step; made when there is one
  int64_t call_ = 0;              // the number of the call that it observes
};

// Collects the observers of a step's asynchronous calls.
class StepStats::Calls {
 public:
  int64_t next_number() { return ++last_number_; }
  void add(Call call);
  std::vector<Call> take(size_t& left_out);

 private:
  std::atomic<int64_t> last_number_{0};
  std::mutex mutex_;  // guards the rest
  std::vector<Call> calls_;
  size_t runs_ = 0;
  size_t left_out_ = 0;
};

}  // namespace thalweg
