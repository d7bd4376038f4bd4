// JointStep: one step over the plans of several devices, each driven by an executor of its own.
//
// The executors meet in one rendezvous: an edge between devices is a Send in one plan and a Recv in another. The first
// error of any part ends all of them; `run` returns when the last has ended.
//
// Threads are shared by the parts. A Send makes another executor ready; if the sender then has nothing left to run, its
// own thread goes on there, and a chain of operations that wanders between devices never waits for a thread to wake up.
// If it has something to run, another thread comes, and the devices work at the same time. A thread that has nothing to
// drive spins for a while before it sleeps: a wake-up takes as long as many kernels run.
//
// A Send and a Recv that run once in a step are linked when the step is compiled: the value goes from one executor to
// the other without a key. Those in loops meet in the rendezvous.
//
// Parts may have teams (executor/team.cc): a thread that computes a heavy node passes the executor on to another
// thread, as if it had been made ready.
//
// While several parts run, their kernels share the cores among them (thread/share_scope.h).
//
// No executor is called with the lock held.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "executor/executor.h"
#include "executor/local_rendezvous.h"

namespace thalweg {

class JointStep final : public Step, public Driver, public std::enable_shared_from_this<JointStep> {
 public:
  // The part of one device: its plan, and the indices of the plan's feeds and fetches in those of the step.
  struct Part {
    std::shared_ptr<const Plan> plan;
    std::vector<int32_t> feeds;
    std::vector<int32_t> fetches;
  };
  // Finds the Sends of parts that can hand their values over directly, and links them with their Recvs.
  static void link(const std::vector<std::shared_ptr<Plan>>& plans);
  // Refuses a step in which two keys of transfers have the same hash: InternalError.
  static void check_keys(const std::vector<std::shared_ptr<Plan>>& plans);
  // The parts must live until `run` returns. `id` is the step's number (executor/step.h); without a rendezvous, the
  // parts get a local one.
  explicit JointStep(const std::vector<Part>& parts, int64_t id = 0, std::shared_ptr<Rendezvous> rendezvous = nullptr);

  // One observer for each part.
  void observe(std::deque<StepStats>& stats);
  void poll_with(std::function<void()> poll) { poll_ = std::move(poll); }
  // Runs the step; the fetched tensors in the step's order. Throws the first error of all parts.
  std::vector<Tensor> run(const std::vector<Tensor>& feeds, size_t num_fetches);
  // Starts the step, and returns. `done` is called once, with the first error or the fetched tensors, when all parts
  // have ended; until then the parts must live.
  using Done = Executor::Finished;
  void start(const std::vector<Tensor>& feeds, size_t num_fetches, Done done);

  void abort(const Error& error) override;
  void tick() override {}
  void ready(Executor& executor) override;
  void share(Taken& taken) override;
  void compute_apart(bool waits, const std::function<void()>& compute) override;
  int active() const override { return active_.load(std::memory_order_relaxed); }
  Executor& part(int32_t i) override { return *executors_[i]; }

 private:
  // Gives each part its feeds; returns those that have something to run.
  std::vector<Executor*> prepare(const std::vector<Tensor>& feeds);
  void finished(size_t part, std::optional<Error> error, std::vector<Tensor> fetched);
  // Drives executors that are ready until there is none; the thread that called `run` stays until the step has ended.
  void drive(bool stays);
  // Makes an executor ready, and sees to it that a thread comes for it. Called with the lock.
  void add(Executor* executor);
  // Sees to it that threads come for executors that are ready. Called with the lock.
  void find_thread();
  // Waits a moment for something to drive. Called with the lock, which it gives up meanwhile.
  void spin(std::unique_lock<std::mutex>& lock);
  void poll();
  // The fetched tensors of all parts, in the step's order. Called when all have ended.
  std::vector<Tensor> results(size_t num_fetches);

  const std::vector<Part>& parts_;
  std::vector<std::shared_ptr<Executor>> executors_;
  std::function<void()> poll_;
  std::atomic<int> active_{0};       // threads that are inside of an executor, or compute a node for one
  std::atomic<int64_t> changes_{0};  // watched by spinning threads: counts executors made ready, and the end

  std::mutex mutex_;  // guards everything below
  std::condition_variable wake_;
  std::deque<Executor*> ready_;
  size_t spinning_ = 0;  // threads
  int sleeping_ = 0;
  int threads_;  // that may drive executors or compute nodes at the same time
  int helpers_ = 0;
  int waiting_ = 0;  // threads that compute a node that may wait for others
  size_t left_;
  size_t num_fetches_ = 0;
  std::vector<std::vector<Tensor>> fetched_;
  std::optional<Error> error_;
  Done done_;
};

}  // namespace thalweg
