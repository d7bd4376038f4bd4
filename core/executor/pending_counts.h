// PendingCounts: how many inputs each node of one frame iteration still waits for, and how many of them came dead.
//
// A plain node runs when nothing is pending; it is dead if any input is, unless it is a ControlTrigger. A Merge
// waits for its control inputs and for the first live data input, or for all data inputs dead; the back edge of a
// loop's Merge does not count, because a dead NextIteration sends nothing. The counts of a new iteration are copied
// from a template.
#pragma once

#include <cstring>
#include <vector>

#include "executor/plan.h"

namespace thalweg {

class PendingCounts {
 public:
  struct Count {
    int32_t pending = 0;
    int32_t dead = 0;        // dead inputs seen
    int32_t dead_limit = 0;  // Merge: so many dead data inputs make it dead
    bool fired = false;      // Merge: it has run or is about to
    bool live = false;       // Merge: a live input has come
  };
  enum class Verdict { wait, run, run_dead };

  static std::vector<Count> initial(const Plan& plan, const FrameInfo& frame) {
    std::vector<Count> counts(frame.num_nodes);
    for (int32_t i = 0; i < frame.num_nodes; ++i) {
      const NodeItem& node = plan.node(frame.nodes[i]);
      counts[i].pending = node.pending;
      counts[i].dead_limit = node.loop_merge ? 1 : node.num_inputs;
    }
    return counts;
  }
  void reset(const std::vector<Count>& initial) { counts_ = initial; }

  // An input of a node that is not a Merge has come, by a data or a control edge.
  Verdict arrived(const NodeItem& node, bool dead) {
    Count& c = counts_[node.index];
    c.dead += dead;
    if (--c.pending > 0) return Verdict::wait;
    return c.dead > 0 && !node.trigger ? Verdict::run_dead : Verdict::run;
  }
  Verdict merge_data(const NodeItem& node, bool dead) {
    Count& c = counts_[node.index];
    if (dead)
      ++c.dead;
    else
      c.live = true;
    return merge_verdict(c);
  }
  Verdict merge_control(const NodeItem& node) {
    Count& c = counts_[node.index];
    --c.pending;
    return merge_verdict(c);
  }
  // Whether a Merge still takes a value: the first live input wins.
  bool merge_open(const NodeItem& node) const { return !counts_[node.index].live; }

 private:
  static Verdict merge_verdict(Count& c) {
    if (c.fired || c.pending > 0) return Verdict::wait;
    if (c.live) {
      c.fired = true;
      return Verdict::run;
    }
    if (c.dead >= c.dead_limit) {
      c.fired = true;
      return Verdict::run_dead;
    }
    return Verdict::wait;
  }
  std::vector<Count> counts_;
};

}  // namespace thalweg
