// IteratorResource: the iterator that a session's steps share; Traversal: one walk along a dataset on behalf of them.
//
// Steps ask with asynchronous kernels. A request that can be served at once is served on its own thread; while one is
// being served, others queue up, and are served in order by the thread that is serving, then by a thread of the pool: a
// waiting request holds no thread, and its step's cancellation removes it. A request in the queue keeps its traversal
// alive, even when the iterator has been initialized anew meanwhile.
#pragma once

#include <deque>
#include <functional>
#include <mutex>

#include "data/background.h"

namespace thalweg {

class Traversal final : public Waker, public std::enable_shared_from_this<Traversal> {
 public:
  // `element` is null at the end of the sequence. Throws Error to fail the request.
  using Deliver = void (*)(AsyncContext& ctx, Element* element);

  static std::shared_ptr<Traversal> begin(const Dataset& dataset, Device& device);
  void request(std::shared_ptr<AsyncContext> ctx, Deliver deliver);
  void wake() override;
  // A component of the next element, if that is there already and no thread is taking it.
  std::optional<Tensor> peek(size_t component);

  // Drops the iterators; later requests fail.
  void close();

  // The position. Waits for a pull that is under way.
  std::string save();
  void restore(const std::string& state);

 private:
  struct Request {
    std::shared_ptr<AsyncContext> ctx;
    Deliver deliver;
    int64_t token = -1;
    std::shared_ptr<Traversal> self;
  };
  // Serves one request with the iterator, which the caller drives. False: later.
  bool serve(Request& request, Step& step);
  // Serves queued requests, at most `most` (negative: all), then passes the rest on or stops driving.
  void drive(int64_t most);
  // Lets a thread of the pool drive. False: there is no thread, and the caller still drives.
  bool hand_over();
  void enqueue(Request request, bool first);
  void cancel(AsyncContext* ctx);
  // Runs `body` as the driver, after waiting for the present driver to stop.
  void exclusively(const std::function<void()>& body);

  std::unique_ptr<DatasetIterator> iterator_;  // the driver's
  Element element_;                            // the driver's
  OwnStep step_;                               // of pulls by other threads than those of the steps that wait
  bool inline_wake_ = false;
  std::mutex mutex_;  // guards the rest
  std::deque<Request> queue_;
  bool driving_ = false;
  bool woken_ = false;
};

class IteratorResource final : public Resource {
 public:
  IteratorResource(Signature signature, Device& device) : signature_(std::move(signature)), device_(device) {}
  ~IteratorResource() override;
  const char* kind() const override { return "an iterator"; }
  const Signature& signature() const { return signature_; }
  Device& device() const { return device_; }

  // Starts over at the beginning of a dataset, whose elements must fit the iterator's signature.
  void initialize(const DatasetPtr& dataset);
  bool initialized();
  // FailedPrecondition if there was no `initialize`.
  std::shared_ptr<Traversal> traversal();
  std::string save() { return traversal()->save(); }
  void restore(const std::string& state);

 private:
  const Signature signature_;
  Device& device_;
  std::mutex mutex_;  // guards the rest
  DatasetPtr dataset_;
  std::shared_ptr<Traversal> current_;
};

// Whether elements of one signature are accepted where another is declared; says what differs.
void check_signature(const Signature& declared, const Signature& actual, const char* whose);

}  // namespace thalweg
