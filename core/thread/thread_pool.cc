// The pool's and the timer's threads.
#include "thread/thread_pool.h"

#include <new>
#include <system_error>

#include "error.h"
#include "thread/denormals.h"
#include "thread/forks.h"

namespace thalweg {

ThreadPool& ThreadPool::shared() {
  // Never destroyed: its threads may hold Python objects while the interpreter ends.
  static ThreadPool* pool = [] {
    Forks::in_child([] { shared().forget_threads(); });
    return new ThreadPool(256);
  }();
  return *pool;
}

void ThreadPool::forget_threads() {
  // Not destroyed: the threads are the parent's, and the lock may be held by one of them.
  new (&mutex_) std::mutex;
  new (&wake_) std::condition_variable;
  new (&work_) std::deque<Work>;
  new (&threads_) std::vector<std::thread>;
  idle_ = 0;
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void ThreadPool::submit(std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    work_.push_back({std::move(work), current_account()});
    if (static_cast<int>(work_.size()) > idle_ && static_cast<int>(threads_.size()) < most_) {
      try {
        threads_.emplace_back([this] { loop(); });
      } catch (const std::system_error& error) {
        if (threads_.empty()) {
          work_.pop_back();
          fail(Code::resource_exhausted, "cannot start a thread: ", error.what());
        }
        // Else the threads that there are do the work.
      }
    }
  }
  // After the lock is released, because the woken thread needs it at once.
  wake_.notify_one();
}

void ThreadPool::loop() {
  FlushDenormals flush;
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    wake_.wait(lock, [this] { return ending_ || !work_.empty(); });
    --idle_;
    if (work_.empty()) return;
    Work work = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    {
      AccountScope scope(work.account);
      work.run();
      work.run = nullptr;
    }
    lock.lock();
  }
}

Timers& Timers::shared() {
  static Timers* timers = [] {
    Forks::in_child([] { shared().forget_threads(); });
    return new Timers;
  }();
  return *timers;
}

void Timers::forget_threads() {
  new (&mutex_) std::mutex;
  new (&wake_) std::condition_variable;
  new (&finished_) std::condition_variable;
  new (&due_) decltype(due_);
  running_ = 0;
  started_ = false;
}

int64_t Timers::at(Clock::time_point when, std::function<void()> work) {
  std::lock_guard lock(mutex_);
  if (!started_) {
    try {
      std::thread([this] { loop(); }).detach();
    } catch (const std::system_error& error) {
      fail(Code::resource_exhausted, "cannot start a thread: ", error.what());
    }
    started_ = true;
  }
  int64_t id = next_++;
  due_.emplace(when, std::pair{id, std::move(work)});
  wake_.notify_one();
  return id;
}

void Timers::cancel(int64_t id) {
  std::unique_lock lock(mutex_);
  for (auto it = due_.begin(); it != due_.end(); ++it) {
    if (it->second.first == id) {
      due_.erase(it);
      return;
    }
  }
  finished_.wait(lock, [&] { return running_ != id; });
}

void Timers::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    if (due_.empty()) {
      wake_.wait(lock);
      continue;
    }
    auto first = due_.begin();
    auto when = first->first;
    if (Clock::now() < when) {
      wake_.wait_until(lock, when);
      continue;
    }
    auto [id, work] = std::move(first->second);
    due_.erase(first);
    running_ = id;
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
    running_ = 0;
    finished_.notify_all();
  }
}

}  // namespace thalweg
