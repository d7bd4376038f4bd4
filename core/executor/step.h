// Step: what the kernels of one running step share: its number, its cancellation, its rendezvous.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "executor/rendezvous.h"
#include "thread/cancellation.h"

namespace thalweg {

class Step {
 public:
  Step() : id_(next_id()) {}
  virtual ~Step() = default;
  int64_t id() const { return id_; }
  Cancellation& cancellation() { return cancellation_; }
  // Shared by the executors of all devices that take part in the step.
  const std::shared_ptr<Rendezvous>& rendezvous() const { return rendezvous_; }
  void set_rendezvous(std::shared_ptr<Rendezvous> rendezvous) { rendezvous_ = std::move(rendezvous); }

  // How many calls of functions that run as steps of their own stand between this step and the one that the user ran.
  int depth() const { return depth_; }
  void set_depth(int depth) { depth_ = depth; }

  // For kernels that run long: whether the step has ended meanwhile, and a chance for whoever waits for it to look
  // around.
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
  static int64_t next_id() {
    static std::atomic<int64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  int64_t id_;
  int depth_ = 0;
  Cancellation cancellation_;
  std::shared_ptr<Rendezvous> rendezvous_;
};

}  // namespace thalweg
