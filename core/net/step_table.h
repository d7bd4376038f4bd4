// StepTable: the steps that this task takes part in, by number, and the tensors that have arrived for them.
//
// A tensor may arrive before the step has been started here: its sender was started first. The table keeps it, within
// limits, until the step starts, or until it is clear that it never will: the sender is lost, or a minute has passed.
// Limits are those of each sender; another one is for all tensors that no Recv has taken yet, also of steps that run: a
// sender cannot fill this task with tensors that nobody asks for. Numbers of steps that have failed, or whose early
// tensors were dropped, are remembered for a while: they do not start any more, and stragglers do not count as early.
// Thread-safe; nothing is called with the lock held.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "net/limits.h"
#include "net/runnable.h"
#include "net/socket.h"
#include "net/step_rendezvous.h"

namespace thalweg::net {

class StepTable {
 public:
  explicit StepTable(std::string task, const Limits& limits = {}) : task_(std::move(task)), limits_(limits) {}

  // Makes a run known under its number, and gives it the rendezvous with whatever has arrived. Throws
  // AlreadyExistsError if the number is in use, AbortedError if the step has been cancelled, or its tensors dropped.
  std::shared_ptr<StepRendezvous> begin(int64_t id, std::shared_ptr<Run> run, std::shared_ptr<const Routes> routes);
  // The rendezvous of a step that is about to begin here, for a partial run's feeds.
  std::shared_ptr<StepRendezvous> prepare(int64_t id);
  // The run is over. Numbers of steps that `failed` are remembered.
  void end(int64_t id, bool failed);

  // A tensor for a step. Throws ResourceExhaustedError if too much of the sender has arrived for steps that have not
  // started, or waits to be taken.
  void deliver(const std::shared_ptr<Connection>& from, int64_t id, uint64_t key, FrameIteration at, Tensor value);
  // Ends a step, or one that has not started yet. A peer (`from`) can end those that it has started.
  void cancel(int64_t id, const Error& error, const Connection* from = nullptr);
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
    std::shared_ptr<Run> run;  // null until the step starts
    Clock::time_point since;
    std::vector<std::pair<uint64_t, size_t>> early;  // numbers of connections, and the bytes that came over them
  };
  struct Sender {
    size_t steps = 0, bytes = 0;
  };
  // Bytes that wait to be taken, by the number of the connection. Rendezvous may outlive the table.
  struct Untaken {
    std::mutex mutex;
    std::unordered_map<uint64_t, size_t> bytes;
  };
  static constexpr size_t kRemembered = 10000;
  static constexpr std::chrono::seconds kPatience{60};

  using Entries = std::unordered_map<int64_t, Entry>;

  // All of them are called with the lock.
  void remember(int64_t id);
  void charge(Entry& entry, uint64_t sender, size_t bytes);
  void discharge(Entry& entry);
  Entries::iterator drop(Entries::iterator at, std::vector<Entry>& dropped);
  // Counts a tensor among those that wait to be taken, until the result is released. Called without the lock.
  LocalRendezvous::Hold hold(uint64_t sender, size_t bytes);

  const std::string task_;
  const Limits limits_;
  const std::shared_ptr<Untaken> untaken_ = std::make_shared<Untaken>();
  std::mutex mutex_;  // guards everything below
  Entries entries_;
  std::unordered_map<uint64_t, Sender> senders_;  // of early tensors, by the number of the connection
  std::unordered_set<int64_t> failed_;
  std::deque<int64_t> failed_order_;
};

}  // namespace thalweg::net
