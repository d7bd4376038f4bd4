// Running a graph with control flow: frames, iterations and dead tokens.
#include "executor/frames.h"

#include <algorithm>

namespace thalweg {
namespace {

bool all_dead(const NodeItem& node, const Tensor* outputs) {
  for (int i = 0; i < node.num_outputs; ++i)
    if (outputs[i].defined()) return false;
  return true;
}

}  // namespace

bool FrameState::later(const Ready& a, const Ready& b) { return a.node > b.node; }

FrameState::FrameState(const Plan& plan)
    : plan_(plan), spare_(plan.frames().size()), outputs_(std::max(2, plan.max_outputs())) {
  for (const FrameInfo& info : plan.frames()) initial_.push_back(PendingCounts::initial(plan, info));
}

FrameState::~FrameState() = default;

Iteration* FrameState::add_iteration(Frame* frame) {
  auto& spare = spare_[frame->info_index];
  std::unique_ptr<Iteration> iteration;
  if (spare.empty()) {
    iteration = std::make_unique<Iteration>();
    iteration->slots.resize(frame->info->num_slots);
  } else {
    iteration = std::move(spare.back());
    spare.pop_back();
  }
  iteration->number = frame->oldest + static_cast<int64_t>(frame->alive.size());
  iteration->counts.reset(initial_[frame->info_index]);
  iteration->outstanding = 0;
  frame->dead_exits.clear();
  frame->alive.push_back(std::move(iteration));
  return frame->newest();
}

void FrameState::recycle(int32_t info_index, std::unique_ptr<Iteration> iteration) {
  for (Tensor& slot : iteration->slots)
    if (slot.defined()) slot.reset();
  iteration->children.clear();
  constexpr size_t kMostSpare = 64;
  if (spare_[info_index].size() < kMostSpare) spare_[info_index].push_back(std::move(iteration));
}

Frame* FrameState::child(Frame* frame, Iteration* iteration, int32_t info_index) {
  for (Frame* each : iteration->children)
    if (each->info_index == info_index) return each;
  std::unique_ptr<Frame> made;
  if (spare_frames_.empty()) {
    made = std::make_unique<Frame>();
  } else {
    made = std::move(spare_frames_.back());
    spare_frames_.pop_back();
  }
  made->info = &plan_.frames()[info_index];
  made->info_index = info_index;
  made->parent = frame;
  made->parent_iteration = iteration;
  made->number = child_frame({frame->number, iteration->number}, made->info->name_hash);
  made->enters_left = made->info->enters;
  made->oldest = 0;
  frames_.push_back(std::move(made));
  Frame* out = frames_.back().get();
  iteration->children.push_back(out);
  add_iteration(out);
  return out;
}

void FrameState::begin(std::span<Tensor> feeds, bool) {
  frames_.push_back(std::make_unique<Frame>());
  Frame* root = frames_.back().get();
  root->info = &plan_.frames()[0];
  Iteration* iteration = add_iteration(root);
  for (int32_t at : root->info->nodes) {
    const NodeItem& node = plan_.node(at);
    // A Merge without control inputs has nothing pending but still waits for a value.
    if (node.pending == 0 && node.kernel && node.kind != NodeKind::merge)
      push(PendingCounts::Verdict::run, node, root, iteration);
  }
  for (size_t i = 0; i < feeds.size(); ++i) {
    int32_t at = plan_.feeds()[i];
    if (at < 0) continue;
    Tensor value = feeds[i];
    activate(plan_.node(at), false, &value, false, root, iteration);
  }
}

inline void FrameState::push(PendingCounts::Verdict verdict, const NodeItem& node, Frame* frame, Iteration* iteration) {
  if (verdict == PendingCounts::Verdict::wait) return;
  ++iteration->outstanding;
  Ready ready{&node, frame, iteration, verdict == PendingCounts::Verdict::run_dead};
  if (frame->parent != nullptr) {
    ready_.push_back(ready);
  } else {
    outside_.push_back(ready);
    std::push_heap(outside_.begin(), outside_.end(), later);
  }
}

FrameState::Ready FrameState::take_ready() {
  if (head_ == ready_.size() || (!outside_.empty() && outside_.front().node < ready_[head_].node)) {
    std::pop_heap(outside_.begin(), outside_.end(), later);
    Ready ready = outside_.back();
    outside_.pop_back();
    return ready;
  }
  Ready ready = ready_[head_++];
  if (head_ == ready_.size()) {
    ready_.clear();
    head_ = 0;
  } else if (head_ > 4096 && head_ * 2 > ready_.size()) {
    ready_.erase(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(head_));
    head_ = 0;
  }
  return ready;
}

void FrameState::drain(Executor& executor) {
  Tensor* outputs = outputs_.data();
  while (can_start() && !executor.interrupted() && !executor.wants_thread()) {
    Ready ready = take_ready();
    const NodeItem& node = *ready.node;
    // A dead Send still runs: the Recv must get the dead token.
    if (!ready.dead || node.kind == NodeKind::send || node.kind == NodeKind::handover) {
      const FrameIteration at{ready.frame->number, ready.iteration->number};
      Tensor* inputs = ready.iteration->slots.data() + node.first_slot;
      if (!executor.execute(node, inputs, outputs, at, {&node, ready.frame, ready.iteration})) continue;
    }
    finish(ready, outputs);
    for (int i = 0; i < node.num_outputs; ++i) outputs[i].reset();
  }
}

void FrameState::complete(const Started& started, Tensor* outputs) {
  finish({started.node, static_cast<Frame*>(started.frame), static_cast<Iteration*>(started.iteration), false},
         outputs);
}

void FrameState::arrive(const NodeItem& node, Tensor value) {
  Frame* root = frames_[0].get();
  Iteration* iteration = root->alive[0].get();
  const bool dead = !value.defined();
  if (node.pending == 1 && !node.cut) return activate(node, dead, &value, true, root, iteration);
  iteration->slots[node.first_slot] = std::move(value);
  push(iteration->counts.arrived(node, dead), node, root, iteration);
}

void FrameState::finish(const Ready& ready, Tensor* outputs) {
  const NodeItem& node = *ready.node;
  Tensor* inputs = ready.iteration->slots.data() + node.first_slot;
  for (int i = 0; i < node.num_inputs; ++i) inputs[i].reset();
  Iteration* iteration = ready.iteration;
  Frame* frame = ready.frame;
  propagate(ready, outputs);
  if (--iteration->outstanding == 0) settle(frame, iteration);
}

inline void FrameState::propagate(const Ready& ready, Tensor* outputs) {
  switch (ready.node->kind) {
    case NodeKind::enter:
      return enter(ready, outputs);
    case NodeKind::exit:
      return exit(ready, outputs);
    case NodeKind::next_iteration:
      return next_iteration(ready, outputs);
    default:
      return activate(*ready.node, ready.dead, outputs, true, ready.frame, ready.iteration);
  }
}

void FrameState::activate(const NodeItem& node, bool dead, Tensor* outputs, bool may_move, Frame* frame,
                          Iteration* iteration) {
  using Verdict = PendingCounts::Verdict;
  // A node whose outputs all came out dead (a Recv of a dead token) is dead for its control edges too; a Switch is not.
  if (!dead && node.num_outputs > 0 && node.kind != NodeKind::switch_) dead = all_dead(node, outputs);
  for (const Edge& edge : node.edges) {
    const NodeItem& to = plan_.node(edge.node);
    Tensor& value = outputs[edge.output];
    bool dead_value = dead || !value.defined();
    Verdict verdict;
    if (to.kind == NodeKind::merge) {
      bool take = !dead_value && iteration->counts.merge_open(to);
      verdict = iteration->counts.merge_data(to, dead_value);
      if (take) iteration->slots[edge.slot] = value;
    } else if (to.kind == NodeKind::sink) {
      if (!dead_value) iteration->slots[edge.slot] = value;
      continue;
    } else {
      if (!dead_value) {
        if (edge.last && may_move)
          iteration->slots[edge.slot] = std::move(value);
        else
          iteration->slots[edge.slot] = value;
      }
      verdict = iteration->counts.arrived(to, dead_value);
    }
    push(verdict, to, frame, iteration);
  }
  for (int32_t at : node.controls) {
    const NodeItem& to = plan_.node(at);
    Verdict verdict =
        to.kind == NodeKind::merge ? iteration->counts.merge_control(to) : iteration->counts.arrived(to, dead);
    push(verdict, to, frame, iteration);
  }
}

void FrameState::enter(const Ready& ready, Tensor* outputs) {
  const NodeItem& node = *ready.node;
  Frame* inner = child(ready.frame, ready.iteration, node.child_frame);
  if (node.constant_enter) {
    inner->invariants.emplace_back(&node, ready.dead ? Tensor() : outputs[0]);
    for (auto& iteration : inner->alive) activate(node, ready.dead, outputs, false, inner, iteration.get());
  } else {
    activate(node, ready.dead, outputs, true, inner, inner->alive.front().get());
  }
  if (--inner->enters_left == 0 && inner->alive.front()->outstanding == 0) settle(inner, inner->alive.front().get());
}

void FrameState::exit(const Ready& ready, Tensor* outputs) {
  if (!ready.dead) {
    activate(*ready.node, false, outputs, true, ready.frame->parent, ready.frame->parent_iteration);
  } else if (ready.iteration == ready.frame->newest()) {
    // Every iteration but the last has dead Exits; they are propagated to the parent frame only if the whole loop was
    // dead.
    ready.frame->dead_exits.push_back(ready.node);
  }
}

void FrameState::next_iteration(const Ready& ready, Tensor* outputs) {
  if (ready.dead) return;
  Frame* frame = ready.frame;
  int64_t next = ready.iteration->number + 1;
  int64_t end = frame->oldest + static_cast<int64_t>(frame->alive.size());
  if (next == end) {
    if (static_cast<int32_t>(frame->alive.size()) >= frame->info->parallel_iterations) {
      frame->deferred.emplace_back(ready.node, std::move(outputs[0]));
      return;
    }
    Iteration* added = add_iteration(frame);
    for (auto& [node, value] : frame->invariants) activate(*node, !value.defined(), &value, false, frame, added);
  }
  activate(*ready.node, false, outputs, true, frame, frame->alive[next - frame->oldest].get());
}

void FrameState::start_deferred(Frame* frame) {
  if (frame->deferred.empty()) return;
  auto deferred = std::move(frame->deferred);
  frame->deferred.clear();
  Iteration* added = add_iteration(frame);
  for (auto& [node, value] : frame->invariants) activate(*node, !value.defined(), &value, false, frame, added);
  for (auto& [node, value] : deferred) activate(*node, false, &value, true, frame, added);
}

void FrameState::settle(Frame* frame, Iteration* iteration) {
  // Only the oldest iteration can end; when it does, the next one may turn out to be finished too.
  while (frame->parent != nullptr) {
    Iteration* oldest = frame->alive.front().get();
    bool ended = oldest->outstanding == 0 && oldest->children.empty() && frame->enters_left == 0;
    if (!ended) return;
    bool last = frame->alive.size() == 1 && frame->deferred.empty();
    if (!last) {
      // The next iteration starts before the oldest one goes, for `newest` must always exist.
      if (frame->alive.size() == 1) start_deferred(frame);
      std::unique_ptr<Iteration> gone = std::move(frame->alive.front());
      frame->alive.erase(frame->alive.begin());
      ++frame->oldest;
      recycle(frame->info_index, std::move(gone));
      if (!frame->deferred.empty()) start_deferred(frame);
      continue;
    }
    Frame* parent = frame->parent;
    Iteration* outer = frame->parent_iteration;
    for (const NodeItem* node : frame->dead_exits) activate(*node, true, outputs_.data(), false, parent, outer);
    recycle(frame->info_index, std::move(frame->alive.front()));
    std::erase(outer->children, frame);
    auto found = std::find_if(frames_.begin(), frames_.end(), [&](const auto& each) { return each.get() == frame; });
    std::unique_ptr<Frame> gone = std::move(*found);
    frames_.erase(found);
    gone->alive.clear();
    gone->invariants.clear();
    gone->dead_exits.clear();
    spare_frames_.push_back(std::move(gone));
    if (outer->outstanding > 0) return;
    frame = parent;
    iteration = outer;
  }
  (void)iteration;
}

std::span<Tensor> FrameState::fetched() {
  const NodeItem& sink = plan_.sink();
  return {frames_[0]->alive[0]->slots.data() + sink.first_slot, static_cast<size_t>(sink.num_inputs)};
}

void FrameState::clear() {
  for (auto& frame : frames_)
    for (auto& iteration : frame->alive) recycle(frame->info_index, std::move(iteration));
  frames_.clear();
  ready_.clear();
  head_ = 0;
  outside_.clear();
  for (Tensor& output : outputs_) output.reset();
}

}  // namespace thalweg
