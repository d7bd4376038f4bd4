// Background: work ahead of the consumer, as one task on the thread pool that gives its thread back when it has to
// wait.
//
// `rouse` makes sure that the task runs, or runs again if it is about to stop. The task calls `body`, without locks,
// until it returns false; a rouse that came meanwhile calls it again. `close` waits for the task to end and keeps it
// from starting again: the owner of the body's data calls it first of all in its destructor. Thread-safe, except
// `close`. As a waker it rouses.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "data/dataset.h"
#include "executor/step.h"

namespace thalweg {

// The step of pulls made ahead of any user's step: it is interrupted when their elements are no longer needed.
class OwnStep final : public Step {
 public:
  void tick() override {}
  void abort(const Error&) override { end(); }
  // For destructors: needs no memory.
  void end() {
    interrupted_.store(true);
    cancellation().cancel();
  }
};

class Background : public Waker, public std::enable_shared_from_this<Background> {
 public:
  // Returns whether there is more to do at once.
  using Body = std::function<bool(Step&)>;
  void set_body(Body body) { body_ = std::move(body); }

  void wake() override { rouse(); }
  void rouse();
  // Waits until the task has stopped and holds it still as long as the result lives: for saving a position.
  class Pause {
   public:
    explicit Pause(Background& background) : background_(background) { background_.hold(); }
    ~Pause() { background_.release(); }
    Pause(const Pause&) = delete;

   private:
    Background& background_;
  };
  void close();

 private:
  void run();
  void hold();
  void release();
  void submit();

  Body body_;
  OwnStep step_;
  std::mutex mutex_;  // guards the rest
  std::condition_variable idle_;
  bool running_ = false;
  bool again_ = false;
  bool held_ = false;
  bool closed_ = false;
  std::thread::id runner_;
};

}  // namespace thalweg
