// Pace: how long the nodes of a plan take, and whether its steps are worth several threads.
//
// Some of a plan's first steps, and a few later ones, are measured: each node's time, and the time that other threads
// spent in its loops. Of two measured steps the shorter time counts: a thread may have lost its core meanwhile. A step
// on several threads cannot take less than its longest path, nor less than all of its work divided by the threads: if
// that is clearly less than what the nodes took one after the other, later steps get a team of threads. A plan without
// asynchronous nodes is compared with what the team then really takes, and goes back to one thread if that is not
// better. Nodes that may wait for each other (Python functions of the user) get a team always.
//
// A member of a team takes a node away from the executor's state to run it only if the node is heavy: it takes longer
// than it takes to find it another thread.
//
// In a plan without asynchronous nodes and control flow, nodes that use the same resource keep the order in which one
// thread would run them (`Order`): so bits do not depend on the number of threads.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace thalweg {

class Plan;

// The time of a clock that never goes back.
inline int64_t steady_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class Pace {
 public:
  // What one step took for one node, in nanoseconds; several runs are added up.
  struct Sample {
    int64_t time = 0;
    int64_t elsewhere = 0;  // spent by helpers of its loops
    int32_t runs = 0;
  };
  struct Mode {
    bool team = false;
    bool measured = false;
  };
  // For each node, how many nodes before it in the schedule must have run besides those that it reads, and which nodes
  // wait for it in the same way.
  struct Order {
    std::vector<int32_t> pending;
    std::vector<std::vector<int32_t>> later;
  };

  // `threads`: how many may work on a step.
  Pace(const Plan& plan, int threads);

  // For tests: from now on every step has a team, and every node is heavy.
  static void force(bool forced) { forced_.store(forced); }

  // How the step that is about to begin is run; `started`: its caller does not wait for it.
  Mode begin(bool started);
  void end_measured(std::span<const Sample> samples, int64_t peak_bytes);
  // A step of a plan without asynchronous nodes has ended that a team ran.
  void end_team(int64_t nanoseconds);

  // Whether the next step that is not measured gets several threads.
  bool has_team() const { return !never_ && (always_ || team_.load(std::memory_order_relaxed)); }
  // Whether a step takes so little time that a thread may do nothing else meanwhile; not before it is known.
  bool is_short() const { return known_.load(std::memory_order_relaxed) < kShort; }
  // Whether a step on one thread might never end: its nodes may wait for each other.
  bool needs_team() const { return always_ && !never_; }
  bool is_heavy(int32_t node) const {
    return heavy_[node].load(std::memory_order_relaxed) || forced_.load(std::memory_order_relaxed);
  }
  const Order& order() const { return order_; }
  // What a step may hold beyond what it held at its beginning, for its threads to run ahead of each other.
  int64_t bytes_ahead() const { return bytes_ahead_.load(std::memory_order_relaxed); }

 private:
  void keep_order_of_resources();
  bool is_worth_a_team(std::span<const Sample> samples, int64_t& serial) const;

  static std::atomic<bool> forced_;
  const Plan& plan_;
  const int threads_;
  bool always_ = false;  // a team
  bool never_ = false;
  Order order_;
  std::unique_ptr<std::atomic<bool>[]> heavy_;
  std::atomic<int64_t> bytes_ahead_{INT64_MAX};
  std::atomic<uint64_t> steps_{0};
  std::atomic<uint64_t> next_measured_{1};
  std::atomic<bool> team_{false};
  static constexpr int64_t kShort = 200'000;  // nanoseconds
  std::atomic<int64_t> known_{INT64_MAX};     // what a step takes on one thread

  std::mutex mutex_;  // guards everything below
  int measured_ = 0;
  std::vector<Sample> last_;  // of the measured step before
  uint64_t pause_ = 64;       // steps until the next measurement
  int64_t serial_ = 0;        // what the last measured step took on one thread
  int tried_ = 0;             // steps of the present team that were timed
  int64_t best_of_team_ = 0;
};

}  // namespace thalweg
