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

// What stays beyond the step must not be memory of somebody else's.
Queue::Tuple owned(std::span<const Tensor> tuple) {
  Queue::Tuple out;
  out.reserve(tuple.size());
  for (const Tensor& component : tuple) out.push_back(component.owned());
  return out;
}

}  // namespace

struct Queue::Attempt {
  enum class Kind { enqueue, enqueue_many, dequeue, dequeue_many, close };
  Kind kind;
  Done done;
  Taken taken;
  Tuple values;                 // what to enqueue
  int64_t next = 0;             // the first row that is not yet enqueued
  int64_t wanted = 1;           // elements that a dequeue still waits for
  bool up_to = false;           // a closed queue may give fewer
  std::vector<Tuple> gathered;  // what it has taken
  std::optional<Error> error;

  Cancellation* cancellation = nullptr;
  int64_t token = -1;
  bool over = false;  // no longer in line
  Line::iterator place;

  bool dequeues() const { return kind == Kind::dequeue || kind == Kind::dequeue_many; }
};

Queue::Queue(Options options) : options_(std::move(options)) {}
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

void Queue::require_open() const {
  if (closed_) fail(Code::cancelled, kind(), " '", name(), "' is closed.");
}

Error Queue::closed_error(int64_t requested, int64_t size) const {
  return Error(Code::out_of_range, cat(kind(), " '", name(), "' is closed and has insufficient elements (requested ",
                                       requested, ", current size ", size, ")"));
}

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

bool Queue::try_enqueue(std::span<const Tensor> tuple) {
  check_types(tuple);
  check_element(tuple);
  Finished finished;
  {
    std::lock_guard lock(mutex_);
    if (enqueues_.empty()) require_open();
    if (!enqueues_.empty() || count() >= options_.capacity) return false;
    put(owned(tuple));
    if (dequeues_.empty()) return true;
    flush(finished);
  }
  report(finished);
  return true;
}

bool Queue::try_enqueue_many(std::span<const Tensor> batch) {
  check_types(batch);
  check_batch(batch);
  const int64_t rows = batch[0].dim(0);
  if (rows == 0) return true;
  Finished finished;
  {
    std::lock_guard lock(mutex_);
    if (enqueues_.empty()) require_open();
    if (!enqueues_.empty() || options_.capacity - count() < rows) return false;
    for (int64_t i = 0; i < rows; ++i) put(row_of(batch, i));
    if (dequeues_.empty()) return true;
    flush(finished);
  }
  report(finished);
  return true;
}

bool Queue::try_dequeue(Tuple& tuple) {
  Finished finished;
  {
    std::lock_guard lock(mutex_);
    if (!dequeues_.empty() || available() < 1) return false;
    tuple = take();
    if (enqueues_.empty()) return true;
    flush(finished);
  }
  report(finished);
  return true;
}

bool Queue::try_dequeue_many(int64_t count, Tuple& batch) {
  check_request(count);
  if (count == 0) {
    batch = empty_batch();
    return true;
  }
  std::vector<Tuple> taken;
  Finished finished;
  {
    std::lock_guard lock(mutex_);
    if (!dequeues_.empty() || available() < count) return false;
    taken.reserve(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) taken.push_back(take());
    if (!enqueues_.empty()) flush(finished);
  }
  report(finished);
  batch = stack(std::move(taken));
  return true;
}

// In line ------------------------------------------------------------------------------------------------------------

void Queue::enqueue(Tuple tuple, Cancellation& cancellation, Done done) {
  check_types(tuple);
  check_element(tuple);
  auto attempt = std::make_shared<Attempt>();
  attempt->kind = Attempt::Kind::enqueue;
  attempt->values = owned(tuple);
  attempt->done = std::move(done);
  begin(std::move(attempt), cancellation);
}

void Queue::enqueue_many(Tuple batch, Cancellation& cancellation, Done done) {
  check_types(batch);
  check_batch(batch);
  if (batch[0].dim(0) == 0) return done(std::nullopt);
  auto attempt = std::make_shared<Attempt>();
  attempt->kind = Attempt::Kind::enqueue_many;
  attempt->values = owned(batch);
  attempt->done = std::move(done);
  begin(std::move(attempt), cancellation);
}

void Queue::dequeue(Cancellation& cancellation, Taken taken) {
  auto attempt = std::make_shared<Attempt>();
  attempt->kind = Attempt::Kind::dequeue;
  attempt->taken = std::move(taken);
  begin(std::move(attempt), cancellation);
}

void Queue::dequeue_many(int64_t count, bool up_to, Cancellation& cancellation, Taken taken) {
  check_request(count);
  if (count == 0) return taken(std::nullopt, empty_batch());
  auto attempt = std::make_shared<Attempt>();
  attempt->kind = Attempt::Kind::dequeue_many;
  attempt->wanted = count;
  attempt->up_to = up_to;
  attempt->taken = std::move(taken);
  begin(std::move(attempt), cancellation);
}

void Queue::close(bool cancel_pending_enqueues, Cancellation& cancellation, Done done) {
  if (!cancel_pending_enqueues) {
    auto attempt = std::make_shared<Attempt>();
    attempt->kind = Attempt::Kind::close;
    attempt->done = std::move(done);
    return begin(std::move(attempt), cancellation);
  }
  Finished finished;
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    for (const std::shared_ptr<Attempt>& attempt : enqueues_) {
      attempt->over = true;
      attempt->error = Error(Code::cancelled, "Enqueue operation was cancelled");
      finished.push_back(attempt);
    }
    enqueues_.clear();
    flush(finished);
  }
  report(finished);
  done(std::nullopt);
}

void Queue::begin(std::shared_ptr<Attempt> attempt, Cancellation& cancellation) {
  Finished finished;
  bool too_late = false;  // the step has ended
  {
    std::lock_guard lock(mutex_);
    Line& line = attempt->dequeues() ? dequeues_ : enqueues_;
    attempt->place = line.insert(line.end(), attempt);
    flush(finished);
    if (!attempt->over) {
      // Registered only now, when it is known to wait: most attempts do not.
      attempt->cancellation = &cancellation;
      attempt->token = cancellation.add([self = shared_from_this(), attempt] { self->cancel(attempt); });
      too_late = attempt->token < 0;
    }
  }
  report(finished);
  if (too_late) cancel(attempt);
}

void Queue::cancel(const std::shared_ptr<Attempt>& attempt) {
  Finished finished;
  {
    std::lock_guard lock(mutex_);
    if (attempt->over) return;
    attempt->over = true;
    attempt->token = -1;  // it runs just now: there is nothing to remove
    (attempt->dequeues() ? dequeues_ : enqueues_).erase(attempt->place);
    attempt->error = Error(Code::cancelled,
                           attempt->dequeues() ? "Dequeue operation was cancelled" : "Enqueue operation was cancelled");
    if (!attempt->gathered.empty()) put_back(std::move(attempt->gathered));
    attempt->gathered.clear();
    finished.push_back(attempt);
    flush(finished);
  }
  report(finished);
}

Queue::Progress Queue::advance(Attempt& attempt) {
  using Kind = Attempt::Kind;
  switch (attempt.kind) {
    case Kind::close:
      if (closed_) attempt.error = Error(Code::cancelled, cat("Queue '", name(), "' is already closed."));
      closed_ = true;
      return Progress::complete;
    case Kind::enqueue:
    case Kind::enqueue_many: {
      if (closed_) {
        attempt.error = Error(Code::cancelled, cat(kind(), " '", name(), "' is closed."));
        return Progress::complete;
      }
      if (count() >= options_.capacity) return Progress::none;
      if (attempt.kind == Kind::enqueue) {
        put(std::move(attempt.values));
        return Progress::complete;
      }
      const int64_t rows = attempt.values[0].dim(0);
      for (; attempt.next < rows && count() < options_.capacity; ++attempt.next)
        put(row_of(attempt.values, attempt.next));
      return attempt.next == rows ? Progress::complete : Progress::some;
    }
    case Kind::dequeue:
    case Kind::dequeue_many:
      return advance_dequeue(attempt);
  }
  return Progress::none;
}

Queue::Progress Queue::advance_dequeue(Attempt& attempt) {
  if (closed_ && count() < attempt.wanted) {
    const int64_t wanted = attempt.wanted, size = count();
    if (!attempt.gathered.empty()) {
      attempt.wanted += static_cast<int64_t>(attempt.gathered.size());
      put_back(std::move(attempt.gathered));
      attempt.gathered.clear();
    }
    if (!attempt.up_to || count() == 0) {
      // What waits to be enqueued is about to be refused; a batch may be smaller, but not for that.
      if (attempt.up_to && !enqueues_.empty()) return Progress::some;
      attempt.error = closed_error(wanted, size);
      return Progress::complete;
    }
    attempt.wanted = count();
  }
  int64_t now = std::min(available(), attempt.wanted);
  if (now <= 0) return Progress::none;
  for (; now > 0; --now, --attempt.wanted) attempt.gathered.push_back(take());
  return attempt.wanted == 0 ? Progress::complete : Progress::some;
}

bool Queue::serve(Line& line, Finished& finished) {
  bool changed = false;
  while (!line.empty()) {
    std::shared_ptr<Attempt> first = line.front();
    Progress progress = Progress::complete;
    try {
      progress = advance(*first);
    } catch (const std::bad_alloc&) {
      first->error = Error(Code::resource_exhausted, "out of memory for an element of a queue");
    }
    changed = changed || progress != Progress::none;
    if (progress != Progress::complete) break;
    first->over = true;
    line.pop_front();
    finished.push_back(std::move(first));
  }
  return changed;
}

void Queue::flush(Finished& finished) {
  bool changed = true;
  while (changed) {
    changed = serve(enqueues_, finished);
    changed = serve(dequeues_, finished) || changed;
  }
}

void Queue::report(Finished& finished) {
  for (const std::shared_ptr<Attempt>& attempt : finished) {
    if (attempt->token >= 0) attempt->cancellation->remove(attempt->token);
    if (!attempt->dequeues()) {
      std::exchange(attempt->done, nullptr)(std::move(attempt->error));
      continue;
    }
    Tuple result;
    if (!attempt->error) {
      try {
        result = attempt->kind == Attempt::Kind::dequeue ? std::move(attempt->gathered.front())
                                                         : stack(std::move(attempt->gathered));
      } catch (const Error& error) {
        attempt->error = error;
      } catch (const std::bad_alloc&) {
        attempt->error = Error(Code::resource_exhausted, "out of memory for a batch of elements");
      }
    }
    std::exchange(attempt->taken, nullptr)(std::move(attempt->error), std::move(result));
  }
}

int64_t Queue::size() {
  std::lock_guard lock(mutex_);
  return count();
}

bool Queue::closed() {
  std::lock_guard lock(mutex_);
  return closed_;
}

}  // namespace thalweg
