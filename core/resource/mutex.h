// Mutex: what critical sections of graphs lock. One step holds it at a time; others wait in line, without a thread.
//
// A Lock is a value of the graph: the mutex is free again when the last copy of it is gone, also when its step has
// failed. The next in line goes on in another thread, because a copy may go anywhere in an executor. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "resource/waitable.h"
#include "thread/run_soon.h"

namespace thalweg {

class Mutex : public Waitable {
 public:
  class Lock : public Resource {
   public:
    explicit Lock(std::shared_ptr<Mutex> mutex) : mutex_(std::move(mutex)) {}
    ~Lock() override {
      run_soon(0, [mutex = std::move(mutex_)] { mutex->release(); });
    }
    Lock(const Lock&) = delete;
    const char* kind() const override { return "the lock of a mutex"; }

   private:
    std::shared_ptr<Mutex> mutex_;
  };
  using Locked = std::function<void(std::optional<Error>, std::shared_ptr<Lock>)>;

  Mutex() : Waitable({{"waiting for a mutex was cancelled"}}) {}
  const char* kind() const override { return "a mutex"; }

  void lock(Cancellation& cancellation, Locked locked) {
    auto take = [this] {
      if (held_) return Progress::none;
      held_ = true;
      return Progress::complete;
    };
    auto self = std::static_pointer_cast<Mutex>(shared_from_this());
    begin(0, take, cancellation, [self, locked = std::move(locked)](std::optional<Error> error) {
      locked(error, error ? nullptr : std::make_shared<Lock>(self));
    });
  }

 private:
  void release() {
    Finished finished;
    {
      std::lock_guard guard(mutex_);
      held_ = false;
      flush(finished);
    }
    report(finished);
  }

  bool held_ = false;
};

}  // namespace thalweg
