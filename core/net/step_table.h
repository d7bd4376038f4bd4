// StepTable: the steps that this task takes part in, by number, and the tensors that have arrived for them.
//
// A tensor may arrive before the step has been started here: its sender was started first. The table keeps it, within
// limits, until the step starts, or until it is clear that it never will: the sender is lost, or a minute has passed.
// Numbers of steps that have failed are remembered for a while, so that stragglers do not count as early ones.
// Thread-safe; nothing is called with the lock held.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "net/runnable.h"
#include "net/socket.h"
#include "net/step_rendezvous.h"

namespace thalweg::net {

class StepTable {
 public:
  explicit StepTable(std::string task) : task_(std::move(task)) {}

  // Makes a run known under its number, and gives it the rendezvous with whatever has arrived. Throws
  // AlreadyExistsError if the number is in use, AbortedError if the step has been cancelled already.
  std::shared_ptr<StepRendezvous> begin(int64_t id, std::shared_ptr<Run> run, std::shared_ptr<const Routes> routes);
  // The rendezvous of a step that is about to begin here, for a partial run's feeds.
  std::shared_ptr<StepRendezvous> prepare(int64_t id);
  // The run is over. Numbers of steps that `failed` are remembered.
  void end(int64_t id, bool failed);

  // A tensor for a step. Throws ResourceExhaustedError if too much has arrived for steps that have not started.
  void deliver(const std::shared_ptr<Connection>& from, int64_t id, uint64_t key, FrameIteration at, Tensor value);
  // Ends a step, or one that has not started yet.
  void cancel(int64_t id, const Error& error);
  // The run under a number, or null.
  std::shared_ptr<Run> find(int64_t id);
  std::vector<std::shared_ptr<Run>> runs();
  // Drops what a peer has sent ahead.
  void forget(const std::shared_ptr<Connection>& from);
  // Drops what has waited too long.
  void expire(Clock::time_point now);
  size_t size();

 private:
  struct Entry {
    std::shared_ptr<StepRendezvous> rendezvous;
    std::shared_ptr<Run> run;        // null until the step starts
    std::weak_ptr<Connection> from;  // who sent the first early tensor
    Clock::time_point since;
    size_t early_bytes = 0;
  };
  static constexpr size_t kMostEarlySteps = 10000;
  static constexpr size_t kMostEarlyBytes = size_t{4} << 30;
  static constexpr size_t kRemembered = 10000;
  static constexpr std::chrono::seconds kPatience{60};

  void remember(int64_t id);

  const std::string task_;
  std::mutex mutex_;  // guards everything below
  std::unordered_map<int64_t, Entry> entries_;
  size_t early_steps_ = 0, early_bytes_ = 0;
  std::unordered_set<int64_t> failed_;
  std::deque<int64_t> failed_order_;
};

}  // namespace thalweg::net
