// Building a plan: kernels, schedule, frames, slots and edges.
#include "executor/plan.h"

#include <algorithm>
#include <map>
#include <queue>
#include <unordered_map>

#include "executor/shared_outputs.h"
#include "executor/state.h"
#include "tensor/upper_bits.h"
#include "thread/parallel.h"

namespace thalweg {
namespace {

NodeKind kind_of(const NodeSpec& spec, const Kernel* kernel) {
  static const std::unordered_map<std::string, NodeKind> kinds = {{"Switch", NodeKind::switch_},
                                                                  {"RefSwitch", NodeKind::switch_},
                                                                  {"Merge", NodeKind::merge},
                                                                  {"RefMerge", NodeKind::merge},
                                                                  {"Enter", NodeKind::enter},
                                                                  {"RefEnter", NodeKind::enter},
                                                                  {"Exit", NodeKind::exit},
                                                                  {"RefExit", NodeKind::exit},
                                                                  {"NextIteration", NodeKind::next_iteration},
                                                                  {"RefNextIteration", NodeKind::next_iteration},
                                                                  {"_Send", NodeKind::send},
                                                                  {"_SendAll", NodeKind::send}};
  auto found = kinds.find(spec.def.op);
  if (found != kinds.end()) return found->second;
  return dynamic_cast<const AsyncKernel*>(kernel) ? NodeKind::async : NodeKind::plain;
}

bool is_back_edge(const std::vector<NodeSpec>& specs, int32_t from, int32_t to) {
  const std::string& source = specs[from].def.op;
  const std::string& target = specs[to].def.op;
  return (source == "NextIteration" || source == "RefNextIteration") && (target == "Merge" || target == "RefMerge");
}

}  // namespace

// Topological order. Among ready nodes asynchronous ones start first, then those that free memory: nodes whose results
// have no readers, and their only inputs (the gradient of a variable, say, and its update); then the only reader of the
// latest result; then the node farthest from the end of the step; ties by the order in which the graph was built. In a
// plan for one device of several, where other devices may wait, the passes have decided the order.
std::vector<int32_t> Plan::schedule(const std::vector<NodeSpec>& specs) const {
  int32_t n = static_cast<int32_t>(specs.size());
  std::vector<int32_t> waiting(n, 0);
  std::vector<std::vector<int32_t>> consumers(n);
  std::vector<std::vector<int32_t>> readers(n);
  auto connect = [&](int32_t from, int32_t to) {
    if (is_back_edge(specs, from, to)) return false;
    consumers[from].push_back(to);
    ++waiting[to];
    return true;
  };
  for (int32_t i = 0; i < n; ++i) {
    for (auto [from, output] : specs[i].inputs)
      if (connect(from, i)) readers[from].push_back(i);
    for (int32_t from : specs[i].controls) connect(from, i);
  }
  std::vector<int32_t> order;
  order.reserve(n);
  std::vector<int32_t> left = waiting;
  for (int32_t i = 0; i < n; ++i)
    if (left[i] == 0) order.push_back(i);
  for (size_t at = 0; at < order.size(); ++at)
    for (int32_t to : consumers[order[at]])
      if (--left[to] == 0) order.push_back(to);
  if (static_cast<int32_t>(order.size()) != n) {
    for (int32_t i = 0; i < n; ++i)
      if (left[i] > 0)
        fail(Code::invalid_argument, "the graph has a cycle through node '", specs[i].def.name, "' (op ",
             specs[i].def.op, "); only NextIteration may lead back to a Merge");
  }
  const bool planned = std::any_of(specs.begin(), specs.end(), [](const NodeSpec& s) { return s.priority >= 0; });
  // Distances to the end of the step, and to a node without readers.
  constexpr int32_t kSoonFreed = 2;
  std::vector<double> distance(n, 0);
  std::vector<int32_t> freed_after(n, 0);
  for (size_t at = order.size(); at-- > 0;) {
    const int32_t from = order[at];
    for (int32_t to : consumers[from]) distance[from] = std::max(distance[from], distance[to] + 1);
    for (int32_t to : readers[from]) freed_after[from] = std::max(freed_after[from], freed_after[to] + 1);
    if (planned) distance[from] = specs[from].priority;
  }

  constexpr double kFirst = 1e300, kFrees = 1e12;
  auto rank = [&](int32_t i) {
    if (specs[i].def.op == "_Recv") return 2 * kFirst;
    // Nodes without inputs (constants, handles, those that only pass control on) cost nothing, and one that frees a
    // large tensor may wait for them. A variable that is read and changed without an order between is read first.
    if (specs[i].inputs.empty() || specs[i].def.op == "ReadVariableOp") return kFirst;
    if (freed_after[i] <= kSoonFreed && !planned) return kFrees;
    return distance[i];
  };
  auto later = [&](int32_t a, int32_t b) {
    const double ra = rank(a), rb = rank(b);
    return ra != rb ? ra < rb : a > b;
  };
  std::priority_queue<int32_t, std::vector<int32_t>, decltype(later)> ready(later);
  order.clear();
  for (int32_t i = 0; i < n; ++i)
    if (waiting[i] == 0) ready.push(i);
  // The only reader of a result comes right after it, unless something else frees memory or is awaited:
  // branch after branch needs less memory than all branches at once.
  auto only_reader = [&](int32_t i, int32_t to) {
    return readers[i].size() == consumers[i].size() &&
           std::all_of(readers[i].begin(), readers[i].end(), [&](int32_t each) { return each == to; });
  };
  while (!ready.empty()) {
    int32_t i = ready.top();
    ready.pop();
    for (int32_t next = i; next >= 0;) {
      i = std::exchange(next, -1);
      order.push_back(i);
      for (int32_t to : consumers[i]) {
        if (--waiting[to] > 0) continue;
        if (!planned && only_reader(i, to) && (ready.empty() || rank(ready.top()) < kFrees))
          next = to;
        else
          ready.push(to);
      }
    }
  }
  return order;
}

int32_t Plan::output_frame(const NodeItem& item) const {
  if (item.kind == NodeKind::enter) return item.child_frame;
  if (item.kind == NodeKind::exit) return frames_[item.frame].parent;
  return item.frame;
}

// Gives every node its static frame: Enter leads into the frame that it names, Exit back out of it.
void Plan::assign_frames(const std::vector<NodeSpec>& specs, const std::vector<int32_t>& order) {
  frames_.push_back({});
  std::map<std::pair<int32_t, std::string>, int32_t> by_name;  // by parent frame and name
  std::vector<int32_t> position(specs.size());
  for (size_t at = 0; at < order.size(); ++at) position[order[at]] = static_cast<int32_t>(at);
  for (size_t at = 0; at < order.size(); ++at) {
    const NodeSpec& spec = specs[order[at]];
    NodeItem& item = nodes_[at];
    int32_t frame = 0;
    bool known = false;
    auto meet = [&](int32_t from) {
      if (is_back_edge(specs, from, order[at])) return;
      const NodeItem& source = nodes_[position[from]];
      int32_t input_frame = output_frame(source);
      if (known && input_frame != frame)
        fail(Code::invalid_argument, "node '", spec.def.name, "' (op ", spec.def.op,
             ") has inputs from different loops: input '", source.def.name, "' is in frame '",
             frames_[input_frame].name, "', another input in '", frames_[frame].name, "'");
      frame = input_frame;
      known = true;
    };
    for (auto [from, output] : spec.inputs) meet(from);
    for (int32_t from : spec.controls) meet(from);
    item.frame = frame;
    if (item.kind == NodeKind::exit && frame == 0)
      fail(Code::invalid_argument, "node '", spec.def.name, "' (op Exit) is not inside a loop");
    if (item.kind == NodeKind::enter) {
      std::string name = spec.def.attr<std::string>("frame_name");
      auto [found, added] = by_name.emplace(std::pair(frame, name), static_cast<int32_t>(frames_.size()));
      if (added) {
        FrameInfo info;
        info.name_hash = fnv1a64(name);
        info.name = std::move(name);
        info.parent = frame;
        info.parallel_iterations = std::max(1, spec.def.attr<int>("parallel_iterations", 10));
        frames_.push_back(std::move(info));
      }
      item.child_frame = found->second;
      item.constant_enter = spec.def.attr<bool>("is_constant", false);
      ++frames_[item.child_frame].enters;
    }
  }
}

Plan::Plan(std::vector<NodeSpec> specs, int num_feeds, std::vector<std::pair<int32_t, int32_t>> fetches,
           const KernelMaker& make_kernel, Device& device, std::shared_ptr<InterOpLimit> limit)
    : device_(device), limit_(std::move(limit)), feeds_(num_feeds, -1) {
  for (const NodeSpec& spec : specs) {
    for (size_t i = 0; i < spec.inputs.size(); ++i) {
      auto [from, output] = spec.inputs[i];
      if (from < 0 || from >= static_cast<int32_t>(specs.size()) || output < 0 ||
          output >= static_cast<int32_t>(specs[from].def.output_dtypes.size()))
        fail(Code::internal, "node '", spec.def.name, "' reads an output that does not exist");
      // Kernels read their inputs as the declared types, so an edge must deliver them.
      DType given = specs[from].def.output_dtypes[output];
      require(i < spec.def.input_dtypes.size() && given == spec.def.input_dtypes[i], "input ", i, " of node '",
              spec.def.name, "' (op ", spec.def.op, ") gets ", given, " from '", specs[from].def.name,
              "', which is not the type it declares");
    }
  }
  NodeSpec sink;
  sink.def.name = "_sink";
  sink.def.op = "_Sink";
  sink.inputs = std::move(fetches);
  for (auto [from, output] : sink.inputs) sink.def.input_dtypes.push_back(specs[from].def.output_dtypes[output]);

  const std::vector<bool> lent = lent_outputs(specs, device_);
  std::vector<int32_t> order = schedule(specs);
  std::vector<int32_t> position(specs.size());
  nodes_.resize(specs.size() + 1);
  for (size_t at = 0; at < order.size(); ++at) {
    NodeSpec& spec = specs[order[at]];
    NodeItem& item = nodes_[at];
    position[order[at]] = static_cast<int32_t>(at);
    if (spec.def.op == "_Arg") {
      set_feed(spec, static_cast<int32_t>(at));
    } else {
      try {
        item.kernel = make_kernel(spec);
      } catch (Error& error) {
        error.set_node(spec.def.name, spec.def.op);
        throw;
      }
    }
    item.kind = kind_of(spec, item.kernel.get());
    if (lent[order[at]] && item.kind == NodeKind::plain && item.kernel && spec.def.op != "Const")
      item.kernel = with_shared_outputs(std::move(item.kernel));
    item.trigger = spec.def.op == "ControlTrigger";
    item.may_wait = spec.may_wait && item.kind == NodeKind::plain;
    item.uses = spec.uses;
    if (item.kind == NodeKind::async) {
      item.prompt = dynamic_cast<PromptKernel*>(item.kernel.get());
      item.arriving = dynamic_cast<ArrivingKernel*>(item.kernel.get());
    }
    item.def = spec.def;
    item.num_inputs = static_cast<int32_t>(spec.inputs.size());
    item.num_outputs = static_cast<int32_t>(spec.def.output_dtypes.size());
    max_outputs_ = std::max(max_outputs_, item.num_outputs);
    flat_ = flat_ && (item.kind == NodeKind::plain || item.kind == NodeKind::async || item.kind == NodeKind::send);
    if (item.def.op == "_Recv" && item.def.attr<bool>("_maybe_dead", false)) flat_ = false;
    sequential_ = sequential_ && (item.kind == NodeKind::plain || item.kind == NodeKind::send);
  }
  sequential_ = sequential_ && flat_;
  if (flat_)
    frames_.push_back({});
  else
    assign_frames(specs, order);
  NodeItem& last = nodes_.back();
  last.kind = NodeKind::sink;
  last.def = sink.def;
  last.num_inputs = static_cast<int32_t>(sink.inputs.size());

  // Slots are numbered per frame, so an edge that ends in another frame than its value would write out of bounds.
  auto check_frame = [&](const NodeItem& source, const NodeItem& item) {
    if (output_frame(source) != item.frame)
      fail(Code::invalid_argument, item.kind == NodeKind::sink ? "a fetch" : cat("node '", item.def.name, "'"),
           " cannot read '", source.def.name, "' (op ", source.def.op,
           "), which is in another loop frame: values leave a loop through its results only");
  };
  auto connect = [&](size_t at, const NodeSpec& spec) {
    NodeItem& item = nodes_[at];
    FrameInfo& frame = frames_[item.frame];
    item.first_slot = frame.num_slots;
    frame.num_slots += item.num_inputs;
    item.index = frame.num_nodes++;
    frame.nodes.push_back(static_cast<int32_t>(at));
    for (size_t i = 0; i < spec.inputs.size(); ++i) {
      auto [from, output] = spec.inputs[i];
      NodeItem& source = nodes_[position[from]];
      check_frame(source, item);
      source.edges.push_back({output, static_cast<int32_t>(at), item.first_slot + static_cast<int32_t>(i), false});
      if (item.kind == NodeKind::merge && source.kind == NodeKind::next_iteration) item.loop_merge = true;
    }
    for (int32_t from : spec.controls) {
      check_frame(nodes_[position[from]], item);
      nodes_[position[from]].controls.push_back(static_cast<int32_t>(at));
    }
    item.pending = static_cast<int32_t>(spec.controls.size());
    if (item.kind != NodeKind::merge) item.pending += item.num_inputs;
  };
  for (size_t at = 0; at < order.size(); ++at) connect(at, specs[order[at]]);
  connect(order.size(), sink);
  last.pending = INT32_MAX;  // never becomes ready
  // On a device with memory of its own, a constant is a kernel that copies it there.
  if (flat_ && !device.memory) keep_constants();
  for (NodeItem& item : nodes_) {
    std::vector<bool> seen(item.num_outputs, false);
    for (size_t e = item.edges.size(); e-- > 0;) {
      item.edges[e].last = !seen[item.edges[e].output];
      seen[item.edges[e].output] = true;
    }
  }
  pace_ = std::make_unique<Pace>(*this, limit_->most());
}

// A feed has no kernel: its value is there when the step begins, so that nothing may hold it up.
void Plan::set_feed(const NodeSpec& spec, int32_t at) {
  const auto index = spec.def.attr<int64_t>("index");
  require(index >= 0 && index < static_cast<int64_t>(feeds_.size()) && feeds_[index] < 0 && spec.inputs.empty() &&
              spec.controls.empty() && spec.def.output_dtypes.size() == 1,
          "node '", spec.def.name, "' (op _Arg) does not stand for one of the ", feeds_.size(), " feeds, alone");
  feeds_[index] = at;
}

void Plan::keep_constants() {
  for (NodeItem& node : nodes_) {
    if (node.def.op != "Const" || node.pending > 0 || !node.controls.empty()) continue;
    Tensor value = node.def.attr<Tensor>("value");
    std::erase_if(node.edges, [&](const Edge& edge) {
      NodeItem& reader = nodes_[edge.node];
      int32_t input = edge.slot - reader.first_slot;
      if (reader.kind == NodeKind::sink || reader.kind == NodeKind::async || input >= 64) return false;
      reader.constants.emplace_back(input, value);
      reader.constant_inputs |= uint64_t{1} << input;
      --reader.pending;
      return true;
    });
    if (node.edges.empty()) node.kernel.reset();
  }
}

namespace {

// Passes on the value that has arrived.
struct Arrival : Kernel {
  void compute(Context& ctx) override { ctx.set_output(0, ctx.take_input(0)); }
};

// The same for a transfer in 16 bits: within a process the lower bits are cut in one go, in place if nothing else reads
// the value.
struct CutArrival : Kernel {
  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    const uint32_t* from = static_cast<const uint32_t*>(in.raw());
    uint32_t* to = static_cast<uint32_t*>(ctx.forward_or_allocate({0}, 0, in.shape()).raw());
    parallel_for(in.num_elements(), int64_t{64} * 1024, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] = from_upper_bits(upper_bits(from[i]));
    });
  }
};

}  // namespace

void Plan::hand_over(int32_t send, int32_t part, int32_t node) {
  NodeItem& item = nodes_.at(send);
  item.kind = NodeKind::handover;
  item.to_part = part;
  item.to_node = node;
}

void Plan::expect(int32_t recv) {
  NodeItem& item = nodes_.at(recv);
  item.kind = NodeKind::plain;
  item.cut = item.def.attr<bool>("_compress", false);
  if (item.cut)
    item.kernel = std::make_shared<CutArrival>();
  else
    item.kernel = std::make_shared<Arrival>();
  item.prompt = nullptr;
  item.arriving = nullptr;
  item.num_inputs = 1;
  item.first_slot = frames_[item.frame].num_slots++;
  ++item.pending;
  ++num_arrivals_;
}

Plan::~Plan() = default;

std::unique_ptr<State> Plan::take_state() const {
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<State> state = std::move(idle_.back());
      idle_.pop_back();
      return state;
    }
  }
  return State::make(*this);
}

void Plan::give_state(std::unique_ptr<State> state) const {
  constexpr size_t kMostIdle = 4;
  std::lock_guard lock(mutex_);
  if (idle_.size() < kMostIdle) idle_.push_back(std::move(state));
}

}  // namespace thalweg
