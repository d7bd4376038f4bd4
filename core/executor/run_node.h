// run_node: one run of one node on the calling thread. All callers that run nodes use it: executors, the bodies of
// functions that run within a step, lowered loops, and fused nodes that are computed op by op.
//
// A run is begun and ended in the records of the step's observer, if it has one; without an observer it adds two
// branches to the kernel. An exception of the kernel is thrown on as an Error that names the node; where nodes run
// within nodes, the innermost one.
#pragma once

#include "kernel/kernel.h"

namespace thalweg {

class StepStats;

// The context that the nodes of one step and device share.
struct NodeSite {
  Device& device;
  Step& step;
  StepStats* stats = nullptr;  // null: not observed
  bool called = false;         // as part of a function that the innermost begun node calls
};

// The Error equivalent of an exception.
Error error_of(const std::exception& exception);
// Throws the exception that is being handled again, as an Error that names the node.
[[noreturn]] void rethrow_from(const NodeDef& node);
[[noreturn]] void fail_unset(const NodeDef& node, int output);
// The observer's notes: the number of the run's record, and its end.
int32_t begin_observed(const NodeSite& site, const NodeDef& def, Kernel* kernel, const Tensor* inputs);
void end_observed(const NodeSite& site, int32_t record, bool ended, Kernel* kernel, Context& ctx,
                  const Tensor* outputs);

// `work(ctx, record)` does the node's work: true if it has ended, false if an asynchronous kernel has been started,
// which will report later. `record` is the number of the run's record.
template <typename Work>
[[gnu::always_inline]] inline bool run_node(const NodeSite& site, const NodeDef& def, Kernel* kernel, Tensor* inputs,
                                            Tensor* outputs, FrameIteration at, const Work& work) {
  try {
    int32_t record = -1;
    if (site.stats != nullptr) [[unlikely]]
      record = begin_observed(site, def, kernel, inputs);
    Context ctx(def, site.device, site.step, inputs, outputs, at);
    const bool ended = work(ctx, record);
    if (site.stats != nullptr) [[unlikely]]
      end_observed(site, record, ended, kernel, ctx, outputs);
    return ended;
  } catch (...) {
    rethrow_from(def);
  }
}

// The same for a synchronous kernel.
[[gnu::always_inline]] inline void compute_node(const NodeSite& site, const NodeDef& def, Kernel& kernel,
                                                Tensor* inputs, Tensor* outputs, FrameIteration at) {
  run_node(site, def, &kernel, inputs, outputs, at, [&](Context& ctx, int32_t) {
    kernel.compute(ctx);
    return true;
  });
}

// For nodes that cannot be dead: every output must have been set.
inline void require_outputs(const NodeDef& def, int count, const Tensor* outputs) {
  for (int i = 0; i < count; ++i)
    if (!outputs[i].defined()) [[unlikely]]
      fail_unset(def, i);
}

}  // namespace thalweg
