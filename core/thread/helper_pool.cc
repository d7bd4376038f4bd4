// Threads that wait for work of steps.
#include "thread/helper_pool.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <system_error>
#include <thread>

#include "thread/forks.h"
#include "thread/thread_pool.h"

namespace thalweg {
namespace {

constexpr int kMostThreads = 1024;
// Spin at most about as long as a wake-up takes.
constexpr std::chrono::microseconds kSpin(50);

int cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

}  // namespace

HelperPool& HelperPool::shared() {
  static HelperPool* pool = [] {
    Forks::in_child([] { shared().forget_threads(); });
    return new HelperPool;
  }();
  return *pool;
}

void HelperPool::forget_threads() {
  new (&mutex_) std::mutex;
  new (&wake_) std::condition_variable;
  new (&work_) std::deque<std::function<void()>>;
  threads_ = spinning_ = sleeping_ = 0;
}

void HelperPool::submit(std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    arrivals_.fetch_add(1, std::memory_order_release);
    const int waiting = static_cast<int>(work_.size());
    if (waiting <= spinning_) return;
    if (waiting > spinning_ + sleeping_ && threads_ < kMostThreads) {
      ++threads_;
      try {
        std::thread([this] { loop(); }).detach();
      } catch (const std::system_error&) {
        --threads_;  // The system has no more threads: those that there are do the work, or the thread pool.
        if (threads_ == 0) {
          ThreadPool::shared().submit(std::move(work_.back()));
          work_.pop_back();
        }
      }
      return;
    }
  }
  wake_.notify_one();
}

void HelperPool::spin(std::unique_lock<std::mutex>& lock) {
  using Clock = std::chrono::steady_clock;
  if (cores() == 1) return;
  const int64_t seen = arrivals_.load(std::memory_order_relaxed);
  ++spinning_;
  lock.unlock();
  const auto until = Clock::now() + kSpin;
  do {
    for (int i = 0; i < 64 && arrivals_.load(std::memory_order_acquire) == seen; ++i) __builtin_ia32_pause();
  } while (arrivals_.load(std::memory_order_acquire) == seen && Clock::now() < until);
  lock.lock();
  --spinning_;
}

void HelperPool::loop() {
  std::unique_lock lock(mutex_);
  bool spun = true;
  while (true) {
    if (!work_.empty()) {
      std::function<void()> work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      work();
      work = nullptr;
      lock.lock();
      spun = false;
    } else if (!spun && spinning_ < cores()) {
      spin(lock);
      spun = true;
    } else {
      ++sleeping_;
      wake_.wait(lock, [this] { return !work_.empty(); });
      --sleeping_;
    }
  }
}

const std::shared_ptr<InterOpLimit>& InterOpLimit::of_process() {
  static const auto* limit = new std::shared_ptr<InterOpLimit>(std::make_shared<InterOpLimit>(cores()));
  return *limit;
}

}  // namespace thalweg
