// State: the progress of one step. Two implementations: FlatState for graphs without control flow, FrameState for the
// rest. A state is touched by one thread at a time, the one that holds its executor, so it needs no locks.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "executor/plan.h"

namespace thalweg {

class Executor;

// A node whose asynchronous kernel was started: the position from which `complete` continues.
struct Started {
  const NodeItem* node;
  void* frame;
  void* iteration;
  int32_t record = -1;  // of the step's observer
};

class State {
 public:
  static std::unique_ptr<State> make(const Plan& plan);
  virtual ~State() = default;
  // Fills the feeds' slots and finds the first ready nodes. `team`: several threads take turns with the state, and take
  // nodes away from it to run them; else a sequential plan simply runs in order.
  virtual void begin(std::span<Tensor> feeds, bool team) = 0;
  // Whether there is a node to run now.
  virtual bool can_start() const = 0;
  // Runs ready nodes until there are none, the step is interrupted, or the executor asks for the thread: a value has
  // arrived, whose readers may be more urgent, or there is a node to run apart.
  virtual void drain(Executor& executor) = 0;
  // Propagates the outputs of an asynchronous kernel, or of a node that was run apart; call drain() afterwards.
  virtual void complete(const Started& started, Tensor* outputs) = 0;
  // Fills the input of a node that expects a value from another plan (none: it is dead); call drain() afterwards.
  virtual void arrive(const NodeItem& node, Tensor value) = 0;
  // The fetched values; an empty tensor where a fetch was dead.
  virtual std::span<Tensor> fetched() = 0;
  // Drops the tensors that the step left, so that the next step can reuse the state.
  virtual void clear() = 0;
};

}  // namespace thalweg
