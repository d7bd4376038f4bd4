// ClusterStep: a step, or a share of one, as one task sees it: what it runs itself, and what it asks peers to run.
//
// A master has one for each step that it has planned: its own parts, and the number under which each peer has
// registered its parts. A worker has one for the parts that a master has registered with it, which asks no further
// peers. A client has one that asks the master to run everything.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "net/runnable.h"
#include "net/step_rendezvous.h"
#include "net/step_waiter.h"
#include "net/task.h"
#include "step_program.h"

namespace thalweg::net {

class ClusterStep final : public Runnable, public std::enable_shared_from_this<ClusterStep> {
 public:
  // Which of the step's feeds and fetches are those of a share.
  struct Share {
    std::vector<int32_t> feeds, fetches;
  };
  struct Local : Share {
    std::shared_ptr<const StepProgram> program;
  };
  struct Remote : Share {
    std::shared_ptr<Connection> peer;
    uint64_t number;  // under which the peer has registered it
  };

  // `routes` are the connections to all tasks that the local parts exchange tensors with.
  ClusterStep(std::shared_ptr<Task> task, std::vector<FeedSpec> feeds, size_t num_fetches, std::optional<Local> local,
              std::vector<Remote> remotes, std::shared_ptr<const Routes> routes);
  // Sets what gives the nodes of the local parts their labels in traces; called before a trace is written.
  void label_with(std::function<void()> label) { label_ = std::move(label); }

  void start(int64_t id, std::vector<Tensor> feeds, StepOptions options, std::shared_ptr<Connection> starter,
             Done done) override;
  const std::vector<FeedSpec>& feeds() const { return feeds_; }
  size_t num_fetches() const { return num_fetches_; }
  // The connections over which something may come for this step.
  const std::vector<std::shared_ptr<Connection>>& connections() const { return connections_; }
  StepPace& pace() { return pace_; }
  Task& task() const { return *task_; }
  const std::optional<Local>& local() const { return local_; }

 private:
  friend class ClusterRun;
  const std::shared_ptr<Task> task_;
  const std::vector<FeedSpec> feeds_;
  const size_t num_fetches_;
  const std::optional<Local> local_;
  const std::vector<Remote> remotes_;
  const std::shared_ptr<const Routes> routes_;
  std::vector<std::shared_ptr<Connection>> connections_;
  StepPace pace_;
  std::function<void()> label_;
};

}  // namespace thalweg::net
