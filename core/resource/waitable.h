// Waitable: a resource on which operations wait in line, without a thread, until its state lets them go on.
//
// An operation that cannot finish at once becomes a *waiter*. An operation that changes the resource calls `flush`
// under the lock: waiters that can now go on do, until nothing changes any more, and those that finished are handed to
// `report`, which calls them back without the lock. A line in order serves its first waiter before all others, even if
// a later one could go on; in a line without order each goes on when it can. A waiter registers with its step's
// Cancellation only when it really waits; when the step ends, it is withdrawn and told so.
//
// Lock order: `mutex_`, then that of a Cancellation. The step of a waiter stays alive until the waiter has reported.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "tensor/resource_handle.h"
#include "thread/cancellation.h"

namespace thalweg {

class Waiter {
 public:
  enum class Progress { none, some, complete };
  virtual ~Waiter() = default;
  // Goes on as far as the resource lets it. Under the lock. `error_` and `complete` end it with an error.
  virtual Progress advance() = 0;
  // The step has ended: puts back the elements that it has taken. Under the lock.
  virtual void withdraw() {}
  // Calls back, exactly once, without the lock.
  virtual void report(std::optional<Error> error) = 0;

 protected:
  std::optional<Error> error_;

 private:
  friend class Waitable;
  using Line = std::list<std::shared_ptr<Waiter>>;
  const char* when_cancelled_ = "";
  Cancellation* cancellation_ = nullptr;
  int64_t token_ = -1;
  bool ended_ = false;  // no longer in line
  Line* line_ = nullptr;
  Line::iterator place_;
};

class Waitable : public Resource, public std::enable_shared_from_this<Waitable> {
 public:
  using Done = std::function<void(std::optional<Error>)>;
  using Progress = Waiter::Progress;
  // How many operations of the process have had to wait so far. Each is counted when it is in line.
  static int64_t waits();

 protected:
  using Finished = std::vector<std::shared_ptr<Waiter>>;
  struct Line {
    const char* when_cancelled;  // the error text for a waiter whose step has ended
    bool in_order = true;
    Waiter::Line waiters{};
    bool empty() const { return waiters.empty(); }
  };
  explicit Waitable(std::vector<Line> lines) : lines_(std::move(lines)) {}

  // Puts a waiter in line, and serves it now if that is possible.
  void begin(size_t line, std::shared_ptr<Waiter> waiter, Cancellation& cancellation);
  // The same for a function: `advance` runs under the lock, and throws Error to end with it.
  void begin(size_t line, std::function<Progress()> advance, Cancellation& cancellation, Done done);
  // The following under the lock.
  void flush(Finished& finished);
  void end_all(size_t line, const Error& error, Finished& finished);
  Line& line(size_t i) { return lines_[i]; }
  // Without the lock.
  static void report(Finished& finished);

  std::mutex mutex_;  // guards the lines, and the state of the subclass

 private:
  void cancel(const std::shared_ptr<Waiter>& waiter);
  bool serve(Line& line, Finished& finished);

  std::vector<Line> lines_;
};

}  // namespace thalweg
