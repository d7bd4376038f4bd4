// Cancellation: tells the waiting operations of a step that the step has ended.
//
// A callback registered with `add` runs at most once, on the cancelling thread, without the lock. `remove` returns
// false when the callback has run or is running: the registrant then must not complete the operation a second time.
#pragma once

#include <functional>
#include <map>
#include <mutex>

namespace thalweg {

class Cancellation {
 public:
  // Returns a token, or -1 if the step is already cancelled (the callback is then not kept).
  int64_t add(std::function<void()> callback) {
    std::lock_guard lock(mutex_);
    if (cancelled_) return -1;
    callbacks_.emplace(next_, std::move(callback));
    return next_++;
  }
  bool remove(int64_t token) {
    std::lock_guard lock(mutex_);
    return callbacks_.erase(token) > 0;
  }
  void cancel() {
    std::map<int64_t, std::function<void()>> callbacks;
    {
      std::lock_guard lock(mutex_);
      if (cancelled_) return;
      cancelled_ = true;
      callbacks.swap(callbacks_);
    }
    for (auto& [token, callback] : callbacks) callback();
  }
  bool cancelled() {
    std::lock_guard lock(mutex_);
    return cancelled_;
  }

 private:
  std::mutex mutex_;
  std::map<int64_t, std::function<void()>> callbacks_;
  int64_t next_ = 0;
  bool cancelled_ = false;
};

}  // namespace thalweg
