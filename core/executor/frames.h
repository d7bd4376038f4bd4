// FrameState: a step over a graph with conditionals and loops (OSDI section 3.4).
//
// A *frame* is one execution of a loop; it lives inside an iteration of its parent frame. An *iteration* has slots and
// pending counts of its own, so that several iterations of a loop run at the same time, up to the loop's
// `parallel_iterations`. An iteration ends when it has nothing left to run, its child frames have ended, all the Enters
// have come (the first one) and the iteration before it has ended; a frame ends with its last iteration. An empty
// tensor is the dead token: it says that a value will not come. A dead node is not run; its outputs are dead.
#pragma once

#include <memory>
#include <vector>

#include "executor/executor.h"
#include "executor/pending_counts.h"
#include "executor/state.h"

namespace thalweg {

struct Frame;

struct Iteration {
  std::vector<Tensor> slots;
  PendingCounts counts;
  int64_t number = 0;
  int32_t outstanding = 0;  // nodes that are ready or running
  std::vector<Frame*> children;
};

struct Frame {
  const FrameInfo* info = nullptr;
  int32_t info_index = 0;
  uint64_t number = 0;  // kernel/frame_iteration.h; 0 for the root
  Frame* parent = nullptr;
  Iteration* parent_iteration = nullptr;
  int32_t enters_left = 0;
  int64_t oldest = 0;                             // number of the first iteration still alive
  std::vector<std::unique_ptr<Iteration>> alive;  // consecutive, from `oldest`
  std::vector<std::pair<const NodeItem*, Tensor>> invariants;
  std::vector<std::pair<const NodeItem*, Tensor>> deferred;  // NextIterations beyond the parallel limit
  std::vector<const NodeItem*> dead_exits;                   // of the newest iteration
  Iteration* newest() { return alive.back().get(); }
};

class FrameState final : public State {
 public:
  explicit FrameState(const Plan& plan);
  ~FrameState() override;
  void begin(std::span<Tensor> feeds, bool team) override;
  bool can_start() const override { return head_ < ready_.size() || !outside_.empty(); }
  void drain(Executor& executor) override;
  void complete(const Started& started, Tensor* outputs) override;
  void arrive(const NodeItem& node, Tensor value) override;
  std::span<Tensor> fetched() override;
  void clear() override;

 private:
  struct Ready {
    const NodeItem* node;
    Frame* frame;
    Iteration* iteration;
    bool dead;
  };
  static bool later(const Ready& a, const Ready& b);

  void finish(const Ready& ready, Tensor* outputs);
  void propagate(const Ready& ready, Tensor* outputs);
  // Fills the slots of the node's consumers in one iteration and finds out which of them are ready.
  void activate(const NodeItem& node, bool dead, Tensor* outputs, bool may_move, Frame* frame, Iteration* iteration);
  void enter(const Ready& ready, Tensor* outputs);
  void next_iteration(const Ready& ready, Tensor* outputs);
  void exit(const Ready& ready, Tensor* outputs);

  Frame* child(Frame* frame, Iteration* iteration, int32_t info_index);
  Iteration* add_iteration(Frame* frame);
  void start_deferred(Frame* frame);
  // Ends finished iterations and frames, from here outwards.
  void settle(Frame* frame, Iteration* iteration);
  void recycle(int32_t info_index, std::unique_ptr<Iteration> iteration);
  void push(PendingCounts::Verdict verdict, const NodeItem& node, Frame* frame, Iteration* iteration);
  Ready take_ready();

  const Plan& plan_;
  std::vector<std::vector<PendingCounts::Count>> initial_;      // per static frame
  std::vector<std::vector<std::unique_ptr<Iteration>>> spare_;  // per static frame
  std::vector<std::unique_ptr<Frame>> frames_;                  // alive, the root first
  std::vector<std::unique_ptr<Frame>> spare_frames_;
  std::vector<Tensor> outputs_;
  // Ready nodes in loops, first in, first out, from head_; and outside of loops, a heap: the earliest in the schedule
  // first. Of the first ones of both, the earlier in the schedule runs.
  std::vector<Ready> ready_;
  size_t head_ = 0;
  std::vector<Ready> outside_;
};

}  // namespace thalweg
