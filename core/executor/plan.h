// Plan: the compiled form of one step's graph on one device: immutable, built once, run by any number of steps at once.
//
// Every input of every node has a slot; an edge says into which slot an output goes. Running a node reads its slots,
// and propagating its outputs fills the slots of its consumers: the last edge moves the tensor, so that a consumer that
// is the only reader sees a buffer it may overwrite. Fetches are the inputs of a sink that never runs. Nodes are stored
// in schedule order. A graph without control flow has one frame and no dead tokens (`flat`); if besides that no kernel
// is asynchronous, running the nodes in order is the whole execution (`sequential`).
//
// Before its first step a plan may be linked with those of other devices of the process: a Send outside of loops then
// hands its value straight to the executor that waits for it, and its Recv is a node with one input, which arrives.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "executor/pace.h"
#include "kernel/prompt_kernel.h"
#include "thread/helper_pool.h"

namespace thalweg {

// From `async` on, running a node is more than calling its kernel.
enum class NodeKind : uint8_t { plain, switch_, merge, enter, exit, next_iteration, send, sink, async, handover };

// Which resources a node uses, beside outputs that it computes of its inputs: those whose handles it reads, or any.
enum class ResourceUse : uint8_t { writes, reads, any };

struct Edge {
  int32_t output;
  int32_t node;
  int32_t slot;
  bool last;  // the last edge of this output: the tensor may move along it
};

struct NodeItem {
  std::shared_ptr<Kernel> kernel;
  PromptKernel* prompt = nullptr;      // the kernel, if it is one
  ArrivingKernel* arriving = nullptr;  // likewise
  NodeDef def;
  NodeKind kind = NodeKind::plain;
  bool loop_merge = false;      // a Merge that closes a loop
  bool constant_enter = false;  // an Enter whose value every iteration sees
  bool trigger = false;         // a ControlTrigger: it runs when all its inputs have come, dead or not
  bool may_wait = false;        // runs code of the user, which may wait for another node of the step
  ResourceUse uses = ResourceUse::writes;
  bool cut = false;  // a linked Recv of 16 bits: its kernel truncates the value that was handed over
  int32_t num_inputs = 0;
  int32_t num_outputs = 0;
  int32_t first_slot = 0;
  int32_t pending = 0;       // data and control inputs; for a Merge, control inputs only
  int32_t frame = 0;         // the static frame that the node runs in
  int32_t child_frame = -1;  // Enter: the frame it enters
  int32_t index = 0;         // within its frame
  int32_t to_part = -1;      // a linked Send: the part of the joint step that it hands its value to,
  int32_t to_node = -1;      // and the node there that waits for it
  std::vector<Edge> edges;
  // Flat plans: inputs that are constants (bit i: input i). Their slots are filled once per state, and not released.
  std::vector<std::pair<int32_t, Tensor>> constants;
  uint64_t constant_inputs = 0;
  std::vector<int32_t> controls;  // nodes that wait for this one
};

struct FrameInfo {
  std::string name;  // the loop's name in the graph
  uint64_t name_hash = 0;
  int32_t parent = -1;
  int32_t parallel_iterations = 1;
  int32_t enters = 0;
  int32_t num_slots = 0;
  int32_t num_nodes = 0;
  std::vector<int32_t> nodes;  // plan indices, by `index`
};

// A node as the Python passes hand it over; inputs are (node, output) pairs by position in the list.
struct NodeSpec {
  NodeDef def;
  std::vector<std::pair<int32_t, int32_t>> inputs;
  std::vector<int32_t> controls;
  bool stateful = false;
  // Of the nodes that are ready the one with the greatest priority runs first; negative: the plan decides.
  double priority = -1;
  bool may_wait = false;
  ResourceUse uses = ResourceUse::writes;
};

// Makes or finds the kernel of a node: stateful ones are shared by all plans of a session.
using KernelMaker = std::function<std::shared_ptr<Kernel>(const NodeSpec&)>;

class State;

class Plan {
 public:
  // Feeds are nodes of op type "_Arg" (attribute `index`); fetches are (node, output) pairs. `limit` bounds the threads
  // of all steps that share it.
  Plan(std::vector<NodeSpec> specs, int num_feeds, std::vector<std::pair<int32_t, int32_t>> fetches,
       const KernelMaker& make_kernel, Device& device,
       std::shared_ptr<InterOpLimit> limit = InterOpLimit::of_process());
  ~Plan();

  const std::vector<NodeItem>& nodes() const { return nodes_; }
  const NodeItem& node(int32_t i) const { return nodes_[i]; }
  int32_t index(const NodeItem& node) const { return static_cast<int32_t>(&node - nodes_.data()); }
  const std::vector<FrameInfo>& frames() const { return frames_; }
  // The plan index of feed i's node, or -1 where nothing reads it.
  const std::vector<int32_t>& feeds() const { return feeds_; }
  const NodeItem& sink() const { return nodes_.back(); }
  int num_fetches() const { return sink().num_inputs; }
  int max_outputs() const { return max_outputs_; }
  bool flat() const { return flat_; }
  bool sequential() const { return sequential_; }
  Device& device() const { return device_; }
  // How long nodes take, and whether steps get several threads.
  Pace& pace() const { return *pace_; }
  InterOpLimit& limit() const { return *limit_; }
  // How many values arrive from other plans.
  int32_t num_arrivals() const { return num_arrivals_; }

  // Links a Send and a Recv, neither of them in a loop, before the first step.
  void hand_over(int32_t send, int32_t part, int32_t node);
  void expect(int32_t recv);

  // States are reused between steps: a large step's slots are allocated once.
  std::unique_ptr<State> take_state() const;
  void give_state(std::unique_ptr<State> state) const;

 private:
  std::vector<int32_t> schedule(const std::vector<NodeSpec>& specs) const;
  void set_feed(const NodeSpec& spec, int32_t at);
  // Puts constants into the slots of their readers for good, and takes their nodes out of the schedule.
  void keep_constants();
  // The frame that a node's outputs belong to.
  int32_t output_frame(const NodeItem& item) const;
  void assign_frames(const std::vector<NodeSpec>& specs, const std::vector<int32_t>& order);

  Device& device_;
  const std::shared_ptr<InterOpLimit> limit_;
  std::unique_ptr<Pace> pace_;
  std::vector<NodeItem> nodes_;
  std::vector<FrameInfo> frames_;
  std::vector<int32_t> feeds_;
  int max_outputs_ = 1;
  int32_t num_arrivals_ = 0;
  bool flat_ = true;
  bool sequential_ = true;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<State>> idle_;
};

}  // namespace thalweg
