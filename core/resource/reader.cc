// The line of reads, the turn, and the state of a reader.
#include "resource/reader.h"

#include "io/wire.h"
#include "thread/thread_pool.h"

namespace thalweg {

struct Reader::Request {
  ResourceHandle handle;
  int64_t count;
  Cancellation& cancellation;
  Done done;
  int64_t token = -1;

  Queue& queue() const { return handle.get<Queue>(); }
};

// Holds the turn for as long as a thread works on the reader. The thread that gives it back serves the reads that came
// meanwhile, unless the first of them waits for its queue: then the turn was only borrowed.
class Reader::Turn {
 public:
  explicit Turn(Reader& reader) : reader_(reader) {
    std::unique_lock lock(reader.mutex_);
    reader.given_back_.wait(lock, [&] { return reader.state_ != State::taken; });
    before_ = std::exchange(reader.state_, State::taken);
  }
  ~Turn() {
    if (borrowed())
      reader_.give_back(State::waiting);
    else
      reader_.serve();
  }
  bool borrowed() const { return before_ == State::waiting; }

 private:
  Reader& reader_;
  State before_;
};

void Reader::give_back(State state) {
  std::lock_guard lock(mutex_);
  state_ = state;
  given_back_.notify_all();
}

// Before a wait, which would have no end if the queue is one of something else.
void Reader::check_queue(const Queue& queue) const {
  require(queue.dtypes() == std::vector{DType::string}, "Reader '", name_,
          "' needs a queue with one component of type string");
}

bool Reader::try_read(Queue& queue, int64_t count, Records& records) {
  check_queue(queue);
  Turn turn(*this);
  return !turn.borrowed() && read_some(queue, count, records);
}

void Reader::read(ResourceHandle queue, int64_t count, Cancellation& cancellation, Done done) {
  auto request = std::make_shared<Request>(std::move(queue), count, cancellation, std::move(done));
  check_queue(request->queue());  // Throws, too, if the handle is not that of a queue.
  {
    std::lock_guard lock(mutex_);
    auto self = shared_from_this();
    request->token = cancellation.add([self, request] { self->cancel(request); });
    if (request->token >= 0) {
      line_.push_back(request);
      if (state_ != State::idle) return;
      state_ = State::taken;
    }
  }
  if (request->token < 0)
    request->done(Error(Code::cancelled, cat("Read operation was cancelled: reader '", name_, "'")), {});
  else
    serve();
}

void Reader::cancel(const std::shared_ptr<Request>& request) {
  {
    std::lock_guard lock(mutex_);
    auto at = std::find(line_.begin(), line_.end(), request);
    if (at == line_.end()) return;  // It is being served; its queue has registered with the step, too.
    line_.erase(at);
  }
  request->done(Error(Code::cancelled, cat("Read operation was cancelled: reader '", name_, "'")), {});
}

void Reader::serve() {
  for (;;) {
    std::shared_ptr<Request> request;
    {
      std::lock_guard lock(mutex_);
      if (line_.empty()) {
        state_ = State::idle;
        given_back_.notify_all();
        return;
      }
      request = std::move(line_.front());
      line_.pop_front();
    }
    request->cancellation.remove(request->token);
    if (!serve_first(request)) return;
  }
}

// False if the request has to wait for its queue; the turn is given up then.
bool Reader::serve_first(const std::shared_ptr<Request>& request) {
  Records records;
  std::optional<Error> error;
  try {
    if (!read_some(request->queue(), request->count, records)) {
      give_back(State::waiting);
      // On the pool: the enqueuing thread, which runs the callback, must not be held up by reading files.
      request->queue().dequeue(
          request->cancellation, [self = shared_from_this(), request](std::optional<Error> error, Queue::Tuple tuple) {
            ThreadPool::shared().submit([self, request, error = std::move(error), tuple = std::move(tuple)] {
              self->resume(request, error, tuple);
            });
          });
      return false;
    }
  } catch (const Error& e) {
    error = e;
  } catch (const std::exception& e) {
    error = Error(Code::internal, e.what());
  }
  request->done(std::move(error), std::move(records));
  return true;
}

void Reader::resume(const std::shared_ptr<Request>& request, std::optional<Error> error, const Queue::Tuple& tuple) {
  {
    std::unique_lock lock(mutex_);
    given_back_.wait(lock, [this] { return state_ != State::taken; });
    state_ = State::taken;
  }
  if (!error) {
    try {
      begin_work(tuple);
    } catch (const Error& e) {
      error = e;
    }
  }
  if (error)
    request->done(std::move(error), {});
  else if (!serve_first(request))
    return;
  serve();
}

bool Reader::read_some(Queue& queue, int64_t count, Records& records) {
  for (;;) {
    if (in_progress_ && read_work(count, records)) return true;
    Queue::Tuple tuple;
    if (!queue.try_dequeue(tuple)) return false;
    begin_work(tuple);
  }
}

// Reads from the work in progress; false if it had nothing more, and has ended.
bool Reader::read_work(int64_t count, Records& records) {
  std::string key, value;
  while (in_progress_ && static_cast<int64_t>(records.keys.size()) < count) {
    // Records that were read before a failure are lost with the step, as in TensorFlow.
    if (!next(key, value)) {
      finish_work();
      break;
    }
    ++records_produced_;
    records.keys.push_back(std::move(key));
    records.values.push_back(std::move(value));
    if (one_record_each()) finish_work();
  }
  return !records.keys.empty();
}

void Reader::begin_work(const Queue::Tuple& tuple) {
  require(tuple[0].num_elements() == 1, "Expected the queue of reader '", name_,
          "' to give one string at a time, got shape ", tuple[0].shape());
  work_ = *tuple[0].strings();
  open(work_);  // A file that cannot be opened is passed over by the next read.
  in_progress_ = true;
  ++work_started_;
}

void Reader::finish_work() {
  close();
  in_progress_ = false;
  ++work_finished_;
}

int64_t Reader::num_records_produced() {
  Turn turn(*this);
  return records_produced_;
}

int64_t Reader::num_work_units_completed() {
  Turn turn(*this);
  return work_finished_;
}

void Reader::reset() {
  Turn turn(*this);
  forget();
}

void Reader::forget() {
  close();
  in_progress_ = false;
  work_.clear();
  work_started_ = work_finished_ = records_produced_ = 0;
}

namespace {

enum Field { kWorkStarted = 1, kWorkFinished = 2, kRecordsProduced = 3, kCurrentWork = 4 };

}  // namespace

std::string Reader::serialize() {
  if (!one_record_each()) fail(Code::unimplemented, "Reader SerializeState: reader '", name_, "' cannot be saved");
  Turn turn(*this);
  std::string out;
  for (auto [field, value] : {std::pair(kWorkStarted, work_started_), std::pair(kWorkFinished, work_finished_),
                              std::pair(kRecordsProduced, records_produced_)}) {
    if (value != 0) wire::put_number(out, field, static_cast<uint64_t>(value));
  }
  if (in_progress_ && !work_.empty()) wire::put_bytes(out, kCurrentWork, work_);
  return out;
}

void Reader::restore(const std::string& state) {
  if (!one_record_each()) fail(Code::unimplemented, "Reader RestoreState: reader '", name_, "' cannot be restored");
  int64_t numbers[kCurrentWork] = {};
  std::string work;
  wire::Reader message(state);
  while (message.next()) {
    if (message.kind() == wire::Kind::varint && message.field() < kCurrentWork)
      numbers[message.field()] = static_cast<int64_t>(message.number());
    else if (message.kind() == wire::Kind::bytes && message.field() == kCurrentWork)
      work = message.value();
  }
  require(message.ok(), "Could not parse state for reader '", name_, "'");
  for (int64_t number : numbers)
    require(number >= 0, "Unexpected negative value when restoring reader '", name_, "': ", number);
  const int64_t started = numbers[kWorkStarted], finished = numbers[kWorkFinished];
  require(started == finished || started - 1 == finished,
          "Inconsistent work started vs. finished when restoring reader '", name_, "': ", started, " vs. ", finished);
  Turn turn(*this);
  forget();
  work_started_ = started;
  work_finished_ = finished;
  records_produced_ = numbers[kRecordsProduced];
  if (started == finished) return;
  work_ = std::move(work);
  open(work_);
  in_progress_ = true;
}

}  // namespace thalweg
