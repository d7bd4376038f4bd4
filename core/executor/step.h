// Step: the state that the kernels of one running step share: its number, its cancellation, its rendezvous.
//
// The starter of a step numbers it: all parts of a step have the same number, in every process, and so have the
// functions that it calls. A session draws one with `new_id`; a master sends the one it drew to all its tasks.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "executor/rendezvous.h"
#include "random/streams.h"
#include "thread/cancellation.h"

namespace thalweg {

class Step {
 public:
  // 0: a new number.
  explicit Step(int64_t id = 0) : id_(id != 0 ? id : new_id()) {}
  virtual ~Step() = default;
  // Positive numbers in a row that starts at a random one: two processes hardly ever draw the same.
  static int64_t new_id();
  int64_t id() const { return id_; }
  // The container of the step's own resources (TensorArrays, stacks).
  std::string container() const { return "step_" + std::to_string(id_); }
  Cancellation& cancellation() { return cancellation_; }
  // Shared by the executors of all devices that take part in the step.
  const std::shared_ptr<Rendezvous>& rendezvous() const { return rendezvous_; }
  void set_rendezvous(std::shared_ptr<Rendezvous> rendezvous) { rendezvous_ = std::move(rendezvous); }

  // How many calls of functions that run as steps of their own stand between this step and the one that the user ran.
  int depth() const { return depth_; }
  void set_depth(int depth) { depth_ = depth; }

  // Where seeded random ops of this step draw from; null: from the streams of their kernels. A call of a dataset's
  // function within another step brings its own, for the thread that makes the call (StreamScope).
  const std::shared_ptr<RandomStreams>& random_streams() const;
  void set_random_streams(std::shared_ptr<RandomStreams> streams) { random_streams_ = std::move(streams); }

  // For kernels that run long: whether the step has ended meanwhile, and a chance for the waiting caller to
  // handle signals.
  bool interrupted() const { return interrupted_.load(std::memory_order_relaxed); }
  virtual void tick() = 0;

  // Keeps the step from ending before work of a device does, and returns what to call, once, when it has ended. The
  // work goes on without the step if that is cancelled; the report of its end then changes nothing.
  using Hold = std::function<void(std::optional<Error>)>;
  virtual Hold hold() { fail(Code::internal, "this step cannot wait for a device"); }

  // Ends the step with this error unless it has failed already; callable from any thread.
  virtual void abort(const Error& error) = 0;

 protected:
  std::atomic<bool> interrupted_{false};

 private:
  int64_t id_;
  int depth_ = 0;
  Cancellation cancellation_;
  std::shared_ptr<Rendezvous> rendezvous_;
  std::shared_ptr<RandomStreams> random_streams_;
};

// While it lives, random ops that this thread runs within `step` draw from `streams`.
class StreamScope {
 public:
  StreamScope(const Step& step, std::shared_ptr<RandomStreams> streams)
      : step_(&step), streams_(std::move(streams)), outer_(innermost_) {
    innermost_ = this;
  }
  ~StreamScope() { innermost_ = outer_; }
  StreamScope(const StreamScope&) = delete;

 private:
  friend class Step;
  const Step* const step_;
  const std::shared_ptr<RandomStreams> streams_;
  const StreamScope* const outer_;
  static thread_local const StreamScope* innermost_;
};

}  // namespace thalweg
