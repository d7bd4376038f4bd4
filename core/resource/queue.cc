// Queues: waiting in line, being served, closing and cancelling; everything but the order of the elements.
#include "resource/queue.h"

#include <algorithm>

#include "resource/queue_batch.h"

namespace thalweg {
namespace {

Queue::Tuple row_of(std::span<const Tensor> batch, int64_t index) {
  Queue::Tuple out;
  out.reserve(batch.size());
  for (const Tensor& component : batch) out.push_back(take_row(component, index));
  return out;
}

// Elements outlive the step, so they must not be in borrowed memory.
Queue::Tuple owned(std::span<const Tensor> tuple) {
  Queue::Tuple out;
  out.reserve(tuple.size());
  for (const Tensor& component : tuple) out.push_back(component.owned());
  return out;
}

}  // namespace

Queue::Queue(Options options)
    : Waitable({{"Enqueue operation was cancelled"}, {"Dequeue operation was cancelled"}}),
      options_(std::move(options)) {}
Queue::~Queue() = default;

// Checks -------------------------------------------------------------------------------------------------------------

void Queue::check_types(std::span<const Tensor> tuple) const {
  require(tuple.size() == options_.dtypes.size(), "Wrong number of components in tuple. Expected ",
          options_.dtypes.size(), ", got ", tuple.size());
  for (size_t i = 0; i < tuple.size(); ++i)
    require(tuple[i].dtype() == options_.dtypes[i], "Type mismatch in tuple component ", i, ". Expected ",
            options_.dtypes[i], ", got ", tuple[i].dtype());
}

void Queue::check_element(std::span<const Tensor> tuple) const {
  for (size_t i = 0; i < options_.shapes.size(); ++i)
    require(options_.shapes[i].accepts(tuple[i].shape()), "Shape mismatch in tuple component ", i, ". Expected ",
            options_.shapes[i], ", got ", tuple[i].shape());
}

void Queue::check_batch(std::span<const Tensor> batch) const {
  for (size_t i = 0; i < batch.size(); ++i) {
    require(batch[i].rank() > 0, "Component ", i,
            " is a scalar; a tensor that is enqueued row by row must have a first dimension");
    require(batch[i].dim(0) == batch[0].dim(0),
            "All input tensors must have the same size in the 0th dimension. Component ", i, " has ", batch[i].dim(0),
            ", and should have ", batch[0].dim(0));
    if (options_.shapes.empty()) continue;
    PartialShape expected = options_.shapes[i];
    expected.dims.insert(expected.dims.begin(), batch[0].dim(0));
    require(expected.accepts(batch[i].shape()), "Shape mismatch in tuple component ", i, ". Expected ", expected,
            ", got ", batch[i].shape());
  }
}

void Queue::check_stackable() const {
  bool known = options_.shapes.size() == options_.dtypes.size() &&
               std::all_of(options_.shapes.begin(), options_.shapes.end(),
                           [](const PartialShape& shape) { return shape.fully_defined(); });
  require(known, kind(), "'s DequeueMany and DequeueUpTo require the components to have specified shapes.");
}

void Queue::check_request(int64_t count) const {
  check_stackable();
  require(count >= 0, "DequeueManyOp requested ", count, " < 0 elements");
}

Error Queue::closed_error() const { return Error(Code::cancelled, cat(kind(), " '", name(), "' is closed.")); }

// Rows and batches ---------------------------------------------------------------------------------------------------

Queue::Tuple Queue::stack(std::vector<Tuple> tuples) const {
  Tuple out;
  for (size_t i = 0; i < options_.dtypes.size(); ++i) {
    out.push_back(new_batch(options_.dtypes[i], static_cast<int64_t>(tuples.size()), empty_shape(i)));
    for (size_t row = 0; row < tuples.size(); ++row) put_row(out[i], static_cast<int64_t>(row), tuples[row][i]);
  }
  return out;
}

Shape Queue::empty_shape(size_t component) const { return Shape(options_.shapes[component].dims); }

Queue::Tuple Queue::empty_batch() const {
  Tuple out;
  for (size_t i = 0; i < options_.dtypes.size(); ++i) out.push_back(new_batch(options_.dtypes[i], 0, empty_shape(i)));
  return out;
}

// Without waiting ----------------------------------------------------------------------------------------------------

bool Queue::serve_others(size_t others, std::unique_lock<std::mutex>& lock) {
  if (line(others).empty()) return true;
  Finished finished;
  flush(finished);
  lock.unlock();
  report(finished);
  return true;
}

bool Queue::try_enqueue(std::span<const Tensor> tuple) {
  check_types(tuple);
  check_element(tuple);
  std::unique_lock lock(mutex_);
  if (!line(kEnqueues).empty()) return false;
  if (closed_) throw closed_error();
  if (count() >= options_.capacity) return false;
  put(owned(tuple));
  return serve_others(kDequeues, lock);
}

bool Queue::try_enqueue_many(std::span<const Tensor> batch) {
  check_types(batch);
  check_batch(batch);
  const int64_t rows = batch[0].dim(0);
  if (rows == 0) return true;
  std::unique_lock lock(mutex_);
  if (!line(kEnqueues).empty()) return false;
  if (closed_) throw closed_error();
  if (options_.capacity - count() < rows) return false;
  for (int64_t i = 0; i < rows; ++i) put(row_of(batch, i));
  return serve_others(kDequeues, lock);
}

bool Queue::try_dequeue(Tuple& tuple) {
  std::unique_lock lock(mutex_);
  if (!line(kDequeues).empty() || available() < 1) return false;
  tuple = take();
  return serve_others(kEnqueues, lock);
}

bool Queue::try_dequeue_many(int64_t count, Tuple& batch) {
  check_request(count);
  if (count == 0) {
    batch = empty_batch();
    return true;
  }
  std::vector<Tuple> taken;
  {
    std::unique_lock lock(mutex_);
    if (!line(kDequeues).empty() || available() < count) return false;
    taken.reserve(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) taken.push_back(take());
    serve_others(kEnqueues, lock);
  }
  batch = stack(std::move(taken));
  return true;
}

// In line ------------------------------------------------------------------------------------------------------------

class Queue::Enqueue : public Waiter {
 public:
  Enqueue(Queue& queue, Tuple values, bool many, Done done)
      : queue_(queue),
        values_(std::move(values)),
        rows_(many ? values_[0].dim(0) : 1),
        many_(many),
        done_(std::move(done)) {}

  Progress advance() override {
    if (queue_.closed_) {
      error_ = queue_.closed_error();
      return Progress::complete;
    }
    if (queue_.count() >= queue_.options_.capacity) return Progress::none;
    for (; next_ < rows_ && queue_.count() < queue_.options_.capacity; ++next_)
      queue_.put(many_ ? row_of(values_, next_) : std::move(values_));
    return next_ == rows_ ? Progress::complete : Progress::some;
  }
  void report(std::optional<Error> error) override { done_(std::move(error)); }

 private:
  Queue& queue_;
  Tuple values_;
  const int64_t rows_;
  const bool many_;
  int64_t next_ = 0;  // the first row that is not yet in the queue
  Done done_;
};

class Queue::Dequeue : public Waiter {
 public:
  Dequeue(Queue& queue, int64_t wanted, bool many, bool up_to, Taken taken)
      : queue_(queue), wanted_(wanted), many_(many), up_to_(up_to), taken_(std::move(taken)) {}

  Progress advance() override {
    if (queue_.closed_ && queue_.count() < wanted_) {
      const int64_t wanted = wanted_, size = queue_.count();
      withdraw();
      if (!up_to_ || queue_.count() == 0) {
        // Waiting enqueues are about to be refused; only then is the queue known to get no more elements.
        if (up_to_ && !queue_.line(kEnqueues).empty()) return Progress::some;
        error_ = Error(Code::out_of_range,
                       cat(queue_.kind(), " '", queue_.name(), "' is closed and has insufficient elements (requested ",
                           wanted, ", current size ", size, ")"));
        return Progress::complete;
      }
      wanted_ = queue_.count();
    }
    int64_t now = std::min(queue_.available(), wanted_);
    if (now <= 0) return Progress::none;
    for (; now > 0; --now, --wanted_) gathered_.push_back(queue_.take());
    return wanted_ == 0 ? Progress::complete : Progress::some;
  }

  void withdraw() override {
    if (gathered_.empty()) return;
    wanted_ += static_cast<int64_t>(gathered_.size());
    queue_.put_back(std::exchange(gathered_, {}));
  }

  void report(std::optional<Error> error) override {
    Tuple result;
    if (!error) {
      try {
        result = many_ ? queue_.stack(std::move(gathered_)) : std::move(gathered_.front());
      } catch (const Error& problem) {
        error = problem;
      } catch (const std::bad_alloc&) {
        error = Error(Code::resource_exhausted, "out of memory for a batch of elements");
      }
    }
    taken_(std::move(error), std::move(result));
  }

 private:
  Queue& queue_;
  int64_t wanted_;  // elements that it still waits for
  const bool many_, up_to_;
  Taken taken_;
  std::vector<Tuple> gathered_;
};

class Queue::Close : public Waiter {
 public:
  Close(Queue& queue, Done done) : queue_(queue), done_(std::move(done)) {}
  Progress advance() override {
    if (queue_.closed_) error_ = Error(Code::cancelled, cat("Queue '", queue_.name(), "' is already closed."));
    queue_.closed_ = true;
    return Progress::complete;
  }
  void report(std::optional<Error> error) override { done_(std::move(error)); }

 private:
  Queue& queue_;
  Done done_;
};

void Queue::enqueue(Tuple tuple, Cancellation& cancellation, Done done) {
  check_types(tuple);
  check_element(tuple);
  begin(kEnqueues, std::make_shared<Enqueue>(*this, owned(tuple), false, std::move(done)), cancellation);
}

void Queue::enqueue_many(Tuple batch, Cancellation& cancellation, Done done) {
  check_types(batch);
  check_batch(batch);
  if (batch[0].dim(0) == 0) return done(std::nullopt);
  begin(kEnqueues, std::make_shared<Enqueue>(*this, owned(batch), true, std::move(done)), cancellation);
}

void Queue::dequeue(Cancellation& cancellation, Taken taken) {
  begin(kDequeues, std::make_shared<Dequeue>(*this, 1, false, false, std::move(taken)), cancellation);
}

void Queue::dequeue_many(int64_t count, bool up_to, Cancellation& cancellation, Taken taken) {
  check_request(count);
  if (count == 0) return taken(std::nullopt, empty_batch());
  begin(kDequeues, std::make_shared<Dequeue>(*this, count, true, up_to, std::move(taken)), cancellation);
}

void Queue::close(bool cancel_pending_enqueues, Cancellation& cancellation, Done done) {
  if (!cancel_pending_enqueues) return begin(kEnqueues, std::make_shared<Close>(*this, std::move(done)), cancellation);
  Finished finished;
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    end_all(kEnqueues, Error(Code::cancelled, "Enqueue operation was cancelled"), finished);
    flush(finished);
  }
  report(finished);
  done(std::nullopt);
}

int64_t Queue::size() {
  std::lock_guard lock(mutex_);
  return count();
}

std::vector<Tensor> Queue::peek(int64_t count, size_t component) {
  std::lock_guard lock(mutex_);
  std::vector<Tensor> out;
  for (int64_t i = 0; i < count; ++i) {
    const Tuple* element = coming(i);
    if (element == nullptr) break;
    out.push_back((*element)[component]);
  }
  return out;
}

bool Queue::closed() {
  std::lock_guard lock(mutex_);
  return closed_;
}

}  // namespace thalweg
