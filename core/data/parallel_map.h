// ParallelCalls: a function of the input's elements, several calls at once, the results in order or as they come.
//
// Workers on the thread pool take turns pulling the input, a few elements at a time, and run the function on them:
// cheap functions are called in chunks, so that passing them between threads costs little, and very cheap ones by the
// consumer alone. A consumer that finds nothing ready works, too, before it waits. At most `calls` threads work, and at
// most so many chunks of results wait. Kernels inside the function run serially when calls run side by side.
//
// Code of the user's may wait for anything, also for elements that follow or for the consumer: then elements are pulled
// and mapped one by one, and by workers only, so that a finished element can always be delivered.
//
// A function that waits (asynchronous kernels) is started instead, with at most `calls` of them under way.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>

#include "data/background.h"
#include "function/function.h"

namespace thalweg {

class ParallelCalls final : public Waker, public std::enable_shared_from_this<ParallelCalls> {
 public:
  struct Options {
    std::shared_ptr<const Function> function;
    std::shared_ptr<const Element> captured;
    size_t calls = 1;
    bool in_order = true;
    bool may_wait = false;  // the function or a pull of the input runs code of the user's
  };
  static std::shared_ptr<ParallelCalls> make(Options options, const Dataset& input, const Making& making);

  Pulled next(Pull& pull, Element& out);
  void wake() override;
  void close();
  void save(StateWriter& out);
  void restore(StateReader& in);

 private:
  struct Call {
    Element args;
    Element results;
    std::optional<Error> error;
    bool done = false;
  };
  using Lock = std::unique_lock<std::mutex>;

  ParallelCalls(Options options, const Making& making)
      : options_(std::move(options)), consumer_(making.waker), streams_(making.streams) {}
  // Whether another chunk may be pulled now.
  bool room() const;
  // Pulls a chunk and calls the function on it; the lock is released meanwhile. False: there was nothing to do.
  bool work(Lock& lock, Step& step);
  void run_calls(Lock& lock, Step& step, const std::vector<Call*>& mine);
  void start_call(Lock& lock, Call* call);
  void finished(Lock& lock, Call* call);
  // Starts another worker if there is work for it; false if the system has no thread left.
  bool recruit();
  void worker();
  Call* ready() const;
  void measure(double seconds, size_t calls);
  // Waits until no worker and no call is left, and keeps it so until `release`.
  void hold(Lock& lock);
  void release(Lock& lock);

  const Options options_;
  const std::shared_ptr<Waker> consumer_;
  const std::shared_ptr<RandomStreams> streams_;
  std::unique_ptr<DatasetIterator> input_;  // of the thread that has set pulling_
  OwnStep step_;                            // of the workers
  std::mutex mutex_;                        // guards the rest
  std::condition_variable idle_;
  std::deque<std::unique_ptr<Call>> calls_;  // in the order of the input
  std::vector<std::unique_ptr<Call>> spare_;
  size_t workers_ = 0;
  size_t started_ = 0;  // calls that run by themselves
  size_t chunk_ = 1;
  double mean_seconds_ = -1;  // of an element, its pull included; negative: not known yet
  bool pulling_ = false;
  bool stalled_ = false;  // the input returned `later`, and has not called the waker yet
  bool woken_ = false;    // the waker was called while the input was being pulled
  bool ended_ = false;
  bool waiting_ = false;  // `next` has returned `later` to the consumer
  bool held_ = false;
  bool closed_ = false;
};

}  // namespace thalweg
