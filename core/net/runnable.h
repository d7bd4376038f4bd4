// Runnable: something that a peer can start by its number: a task's parts of a step, or a whole step of a master.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace thalweg::net {

class Connection;

struct StepOptions {
  bool traced = false;   // record when each node ran
  bool checked = false;  // find the nodes that make NaNs or infinities
  // What to add to the clock of whoever runs a part to get that of the one who asks, in nanoseconds.
  int64_t clock_offset = 0;
};

struct StepResult {
  std::optional<Error> error;
  std::vector<Tensor> fetches;
  std::string stats;                                          // serialized StepStats of a traced step
  std::vector<std::pair<std::string, std::string>> findings;  // of a checked one: nodes, and what is wrong
};

// Anything that runs under a step's number and can be ended.
class Run {
 public:
  virtual ~Run() = default;
  // Ends the step with this error, unless it has failed already. Any thread.
  virtual void abort(const Error& error) = 0;
  // Whether a peer has asked for this run: it may end it.
  virtual bool is_started_by(const Connection* peer) const = 0;
  // A peer has reported the end of its part.
  virtual void part_done(const std::shared_ptr<Connection>& peer, StepResult result) = 0;
  // The connection to a peer is lost, which the step may or may not need.
  virtual void lost(const std::shared_ptr<Connection>& peer, const Error& why) = 0;
};

class Runnable {
 public:
  using Done = std::function<void(StepResult)>;
  virtual ~Runnable() = default;
  // Starts step `id`. `done` is called once, on any thread, and maybe before this returns. `starter` is the peer that
  // asked for it, if any: the step is aborted when that connection ends. Throws if the step cannot even be started.
  virtual void start(int64_t id, std::vector<Tensor> feeds, StepOptions options, std::shared_ptr<Connection> starter,
                     Done done) = 0;
};

}  // namespace thalweg::net
