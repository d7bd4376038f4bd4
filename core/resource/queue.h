// Queue: elements, each a tuple of tensors, on their way from the steps that make them to the steps that use them.
//
// Nothing here blocks. `enqueue`, `dequeue` and their siblings either finish at once or become an *attempt* that waits
// in line, without a thread, until the queue has room or elements; the callback then runs, without the lock, on
// whichever thread made that possible. Attempts of one direction are served strictly in the order of their arrival: the
// first in line may take elements (or fill room) piece by piece, and those behind it wait. The elements that an attempt
// has taken are put back in their places if the attempt ends without success, because the queue was closed or its step
// ended.
//
// Closing is an attempt among the enqueues: those before it are still served. Closing with cancellation ends them
// instead. A closed queue refuses enqueues (CancelledError), and dequeues beyond its last element (OutOfRangeError).
//
// A subclass says in which order elements leave. Locks and lifetimes are those of Waitable. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "resource/waitable.h"
#include "tensor/tensor.h"

namespace thalweg {

class Queue : public Waitable {
 public:
  using Tuple = std::vector<Tensor>;
  using Taken = std::function<void(std::optional<Error>, Tuple)>;
  static constexpr int64_t kUnbounded = std::numeric_limits<int32_t>::max();

  struct Options {
    std::string name;
    int64_t capacity = kUnbounded;
    std::vector<DType> dtypes;
    std::vector<PartialShape> shapes;  // empty: elements may have any shapes
  };
  explicit Queue(Options options);
  ~Queue() override;

  const std::string& name() const { return options_.name; }
  const std::vector<DType>& dtypes() const { return options_.dtypes; }
  const Options& options() const { return options_; }

  // Bad tuples throw InvalidArgument; all other errors go to the callback.
  void enqueue(Tuple tuple, Cancellation& cancellation, Done done);
  // One element for each row of the tensors.
  void enqueue_many(Tuple batch, Cancellation& cancellation, Done done);
  void dequeue(Cancellation& cancellation, Taken taken);
  // `count` elements as rows of one tensor per component; fewer if `up_to` and a closed queue has no more.
  void dequeue_many(int64_t count, bool up_to, Cancellation& cancellation, Taken taken);
  void close(bool cancel_pending_enqueues, Cancellation& cancellation, Done done);

  // The same without waiting: false, with nothing changed, if it would have to wait. Throw the error that the callback
  // would get.
  bool try_enqueue(std::span<const Tensor> tuple);
  bool try_enqueue_many(std::span<const Tensor> batch);
  bool try_dequeue(Tuple& tuple);
  bool try_dequeue_many(int64_t count, Tuple& batch);

  int64_t size();
  bool closed();
  // A component of the elements that the next `count` dequeues will probably take, as far as they are there and their
  // order is known. Shares their memory.
  std::vector<Tensor> peek(int64_t count, size_t component);

 protected:
  // For subclasses, under the lock.
  virtual int64_t count() const = 0;
  virtual void put(Tuple tuple) = 0;
  virtual Tuple take() = 0;
  // The element that leaves after so many others; null if that is not known.
  virtual const Tuple* coming(int64_t others) const {
    (void)others;
    return nullptr;
  }
  // Takes elements back that were taken one after the other, so that they are as if they had never left.
  virtual void put_back(std::vector<Tuple> tuples) = 0;
  // How many elements may leave now.
  virtual int64_t available() const { return count(); }
  bool is_closed() const { return closed_; }

  // Without the lock.
  virtual void check_element(std::span<const Tensor> tuple) const;
  virtual void check_batch(std::span<const Tensor> batch) const;
  // Fails if elements of these shapes cannot become rows of one tensor.
  virtual void check_stackable() const;
  virtual Tuple stack(std::vector<Tuple> tuples) const;
  // The shape of a component in an empty batch.
  virtual Shape empty_shape(size_t component) const;

  const Options options_;

 private:
  class Enqueue;
  class Dequeue;
  class Close;
  static constexpr size_t kEnqueues = 0, kDequeues = 1;

  void check_types(std::span<const Tensor> tuple) const;
  void check_request(int64_t count) const;
  Tuple empty_batch() const;
  Error closed_error() const;
  // After a change without waiting: serves the waiters that can now go on.
  bool serve_others(size_t line, std::unique_lock<std::mutex>& lock);

  bool closed_ = false;
};

}  // namespace thalweg
