// The helpers that join the loops of kernels, and the process-wide number of threads.
#include "thread/parallel.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "error.h"
#include "memory/account.h"
#include "thread/denormals.h"
#include "thread/forks.h"
#include "thread/interruption.h"
#include "thread/serial_scope.h"
#include "thread/share_scope.h"

namespace thalweg {
namespace {

std::atomic<int> chosen_threads{0};
thread_local bool inside_loop = false;
thread_local const std::atomic<int>* sharers = nullptr;
constexpr int64_t kInterruptiblePieces = 64;
thread_local ParallelMeter* meter = nullptr;

int64_t nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// One loop under way. It lives on its caller's stack: the caller takes it off the list, so that no helper can join any
// more, and then waits for those that have.
//
// Each worker has a stretch of the loop to begin with, the same one in every loop: data written in one loop is in its
// core's cache in the next. A worker that has finished its own stretch steals pieces of the others'.
class Loop {
 public:
  Loop(const void* body, void (*invoke)(const void*, int64_t, int64_t), int64_t n, int64_t grain, int threads)
      : places(threads - 1), body_(body), invoke_(invoke), grain_(grain), count_(std::min(threads, kMostStretches)) {
    most_ = interruption_ ? std::max(grain, n / kInterruptiblePieces) : (n + 4 * threads - 1) / (4 * threads);
    for (int i = 0; i < count_; ++i) {
      stretches_[i].next.store(n * i / count_, std::memory_order_relaxed);
      stretches_[i].end = n * (i + 1) / count_;
    }
  }

  void work(int worker) {
    inside_loop = true;
    for (int i = 0; i < count_; ++i) take(stretches_[(worker + i) % count_], worker == 0);
    inside_loop = false;
  }
  // After the loop: throws if it was interrupted.
  void check() const {
    if (thrown_) std::rethrow_exception(thrown_);
    if (stopped_.load(std::memory_order_relaxed)) fail(Code::cancelled, "the step has ended");
  }
  bool open() const {
    return places > 0 && std::any_of(stretches_, stretches_ + count_, [](const Stretch& s) { return s.left() > 0; });
  }

  int places;  // how many helpers may still join; guarded by the crew's lock
  std::atomic<int> helping{0};
  Account* const account = current_account();

 private:
  static constexpr int kMostStretches = 16;
  struct alignas(64) Stretch {
    std::atomic<int64_t> next;
    int64_t end;
    int64_t left() const { return end - next.load(std::memory_order_relaxed); }
  };

  // Pieces become smaller towards the end, so that all threads finish together, and one that was held up leaves little
  // behind. Where they begin and end does not depend on the thread that takes them.
  void take(Stretch& from, bool is_caller) {
    int64_t begin = from.next.load(std::memory_order_relaxed);
    while (begin < from.end) {
      if (interruption_ && is_stopped(is_caller)) return;
      const int64_t end = std::min(from.end, begin + std::max(grain_, std::min(most_, (from.end - begin) / 2)));
      if (!from.next.compare_exchange_weak(begin, end, std::memory_order_relaxed)) continue;
      invoke_(body_, begin, end);
      begin = from.next.load(std::memory_order_relaxed);
    }
  }

  // The caller asks, the helpers see what it has found.
  bool is_stopped(bool is_caller) {
    if (is_caller && !stopped_.load(std::memory_order_relaxed)) {
      try {
        if (interruption_->is_due()) stopped_.store(true, std::memory_order_relaxed);
      } catch (...) {
        thrown_ = std::current_exception();
        stopped_.store(true, std::memory_order_relaxed);
      }
    }
    return stopped_.load(std::memory_order_relaxed);
  }

  Interruption* const interruption_ = Interruption::current();
  std::atomic<bool> stopped_{false};
  std::exception_ptr thrown_;  // by the caller
  const void* const body_;
  void (*const invoke_)(const void*, int64_t, int64_t);
  const int64_t grain_;
  int64_t most_;  // of a piece
  const int count_;
  Stretch stretches_[kMostStretches];
};

class Crew {
 public:
  // Never destroyed: its threads sleep until the process ends.
  static Crew& shared() {
    static Crew* crew = [] {
      Forks::in_child([] { shared().forget_threads(); });
      return new Crew;
    }();
    return *crew;
  }

  void run(Loop& loop) {
    {
      std::lock_guard lock(mutex_);
      while (static_cast<int>(threads_) < loop.places) {
        ++threads_;
        std::thread([this, worker = threads_] { help(worker); }).detach();
      }
      loops_.push_back(&loop);
      arrivals_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    loop.work(0);
    {
      std::lock_guard lock(mutex_);
      std::erase(loops_, &loop);
    }
    for (int spins = 0; loop.helping.load(std::memory_order_acquire) > 0; ++spins) pause(spins);
  }

 private:
  // In a forked child, which has none of the threads.
  void forget_threads() {
    new (&mutex_) std::mutex;
    new (&wake_) std::condition_variable;
    new (&loops_) std::vector<Loop*>;
    threads_ = 0;
  }

  static void pause(int spins) {
    if (spins < 4000)
      __builtin_ia32_pause();
    else
      std::this_thread::yield();
  }

  Loop* join() {
    for (Loop* loop : loops_) {
      if (!loop->open()) continue;
      --loop->places;
      loop->helping.fetch_add(1, std::memory_order_relaxed);
      return loop;
    }
    return nullptr;
  }

  void help(int worker) {
    // Kernels follow each other closely: spinning for some microseconds is cheaper than a sleep and a wake-up.
    constexpr int kSpins = 2000;
    FlushDenormals flush;
    std::unique_lock lock(mutex_);
    while (true) {
      if (Loop* loop = join()) {
        lock.unlock();
        {
          AccountScope scope(loop->account);
          loop->work(worker);
        }
        loop->helping.fetch_sub(1, std::memory_order_release);
        int64_t seen = arrivals_.load(std::memory_order_acquire);
        for (int i = 0; i < kSpins && arrivals_.load(std::memory_order_acquire) == seen; ++i) __builtin_ia32_pause();
        lock.lock();
      } else {
        wake_.wait(lock);
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Loop*> loops_;
  std::atomic<int64_t> arrivals_{0};
  int threads_ = 0;
};

}  // namespace

SerialScope::SerialScope() : before_(inside_loop) { inside_loop = true; }
SerialScope::~SerialScope() { inside_loop = before_; }

ShareScope::ShareScope(const std::atomic<int>& active) : before_(std::exchange(sharers, &active)) {}
ShareScope::~ShareScope() { sharers = before_; }

ParallelMeter::ParallelMeter() : outer_(std::exchange(meter, this)) {}
ParallelMeter::~ParallelMeter() { meter = outer_; }
ParallelMeter::Loop::Loop(int threads) : threads_(meter == nullptr ? 1 : threads) {
  if (threads_ > 1) began_ = nanoseconds();
}
ParallelMeter::Loop::~Loop() {
  if (threads_ > 1) meter->elsewhere_ += (nanoseconds() - began_) * (threads_ - 1);
}

void set_intra_op_threads(int n) { chosen_threads.store(std::max(0, n)); }

int undivided_intra_op_threads() {
  static const int cores = std::max(1u, std::thread::hardware_concurrency());
  const int n = chosen_threads.load(std::memory_order_relaxed);
  return n > 0 ? n : cores;
}

int intra_op_threads() {
  const int n = undivided_intra_op_threads();
  return sharers == nullptr ? n : std::max(1, n / std::max(1, sharers->load(std::memory_order_relaxed)));
}

void run_in_parallel(int64_t n, int64_t grain, const void* body, void (*invoke)(const void*, int64_t, int64_t)) {
  int64_t pieces = (n + grain - 1) / grain;
  int threads = static_cast<int>(std::min<int64_t>(intra_op_threads(), pieces));
  if (inside_loop || (threads <= 1 && Interruption::current() == nullptr)) {
    invoke(body, 0, n);
    return;
  }
  const ParallelMeter::Loop metered(std::max(threads, 1));
  Loop loop(body, invoke, n, grain, std::max(threads, 1));
  if (threads <= 1)
    loop.work(0);
  else
    Crew::shared().run(loop);
  loop.check();
}

}  // namespace thalweg
