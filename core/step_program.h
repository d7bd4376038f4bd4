// StepProgram: a compiled step, or a task's share of one: the plans of some devices of a session, feeds and fetches.
//
// Immutable; any number of steps run it at once. It keeps the owner of its session alive.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "executor/joint_step.h"
#include "executor/trace.h"
#include "session.h"

namespace thalweg {

struct FeedSpec {
  std::string name;
  DType dtype;
  PartialShape shape;
};

class StepProgram {
 public:
  // `owner` keeps the session alive.
  StepProgram(std::shared_ptr<void> owner, Session& session, std::vector<FeedSpec> feeds,
              std::vector<JointStep::Part> parts, size_t num_fetches);

  Session& session() const { return session_; }
  const std::vector<FeedSpec>& feeds() const { return feeds_; }
  const std::vector<JointStep::Part>& parts() const { return parts_; }
  size_t num_fetches() const { return num_fetches_; }
  // Whether it is one part that takes the step's feeds and gives its fetches as they are: its executor runs them then.
  bool is_one_plan() const { return is_one_plan_; }
  std::vector<std::shared_ptr<const Plan>> plans() const;
  // The numbers of its nodes in traces, made on first use.
  const std::shared_ptr<NodeTable>& nodes() const;
  // Observers for one step, one for each part.
  std::deque<StepStats> observers(StepStats::Options options) const;

  // Starts a step, and returns at once. `made` gets the step before it begins: from then on it can be aborted.
  // `finished` is called once, on any thread, with the error or the fetches. The program must live until then; so must
  // the observers, one for each part, if there are any. Throws CancelledError if the session is closed.
  static void start(const std::shared_ptr<const StepProgram>& program, int64_t id,
                    std::shared_ptr<Rendezvous> rendezvous, std::vector<Tensor> feeds, std::deque<StepStats>* observers,
                    const std::function<void(const std::shared_ptr<Step>&)>& made, Executor::Finished finished);

 private:
  const std::shared_ptr<void> owner_;
  Session& session_;
  const std::vector<FeedSpec> feeds_;
  const std::vector<JointStep::Part> parts_;
  const size_t num_fetches_;
  const bool is_one_plan_;
  mutable std::once_flag numbered_;
  mutable std::shared_ptr<NodeTable> nodes_;
};

}  // namespace thalweg
