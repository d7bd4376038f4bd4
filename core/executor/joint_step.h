// JointStep: one step over the plans of several devices, each driven by an executor of its own.
//
// The executors meet in one rendezvous: an edge between devices is a Send in one plan and a Recv in another. The first
// part runs on the calling thread, the others on the thread pool. The first error of any part ends all of them; `run`
// returns when the last has ended.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "executor/executor.h"

namespace thalweg {

class JointStep final : public Step {
 public:
  // What one device does: its plan, and which of the step's feeds and fetches are those of the plan.
  struct Part {
    std::shared_ptr<const Plan> plan;
    std::vector<int32_t> feeds;
    std::vector<int32_t> fetches;
  };
  explicit JointStep(const std::vector<Part>& parts);

  // One observer for each part.
  void observe(std::deque<StepStats>& stats);
  void poll_with(std::function<void()> poll) { poll_ = std::move(poll); }
  // Runs the step; the fetched tensors in the step's order. Throws the first error of all parts.
  std::vector<Tensor> run(const std::vector<Tensor>& feeds, size_t num_fetches);

  void abort(const Error& error) override;
  void tick() override {}

 private:
  void finished(size_t part, std::optional<Error> error, std::vector<Tensor> fetched);
  void wait();

  const std::vector<Part>& parts_;
  std::vector<std::shared_ptr<Executor>> executors_;
  std::function<void()> poll_;

  std::mutex mutex_;  // guards everything below
  std::condition_variable wake_;
  size_t left_;
  std::vector<std::vector<Tensor>> fetched_;
  std::optional<Error> error_;
};

}  // namespace thalweg
