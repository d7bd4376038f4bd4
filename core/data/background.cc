// Starting, stopping and pausing the background task.
#include "data/background.h"

#include "thread/blocking.h"
#include "thread/thread_pool.h"

namespace thalweg {

void Background::rouse() {
  std::lock_guard lock(mutex_);
  if (closed_) return;
  if (running_ || held_) {
    again_ = true;
    return;
  }
  submit();
}

void Background::submit() {
  // The task waits for the lock. Only then: if no thread is to be had, nothing runs.
  ThreadPool::shared().submit([self = shared_from_this()] { self->run(); });
  running_ = true;
}

void Background::run() {
  {
    std::lock_guard lock(mutex_);
    runner_ = std::this_thread::get_id();
  }
  while (true) {
    {
      std::lock_guard lock(mutex_);
      again_ = false;
      if (closed_ || held_) {
        again_ = held_;
        break;
      }
    }
    bool more = body_(step_);
    if (more) continue;
    std::lock_guard lock(mutex_);
    if (closed_ || held_ || !again_) {
      runner_ = {};
      running_ = false;
      idle_.notify_all();
      return;
    }
  }
  std::lock_guard lock(mutex_);
  runner_ = {};
  running_ = false;
  idle_.notify_all();
}

void Background::hold() {
  blocking([this] {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return !held_; });
    held_ = true;
    idle_.wait(lock, [this] { return !running_; });
  });
}

void Background::release() {
  std::lock_guard lock(mutex_);
  held_ = false;
  idle_.notify_all();
  if (std::exchange(again_, false) && !closed_) submit();
}

void Background::close() {
  step_.end();
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    // The task itself may drop the last reference to its owner: then the task ends when it returns.
    if (!running_ || runner_ == std::this_thread::get_id()) return;
  }
  blocking([this] {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return !running_; });
  });
}

}  // namespace thalweg
