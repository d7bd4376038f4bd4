// Reader: turns work (mostly the names of files, from a queue) into records, each a key and a value.
//
// A read takes records from the work in progress, and the next piece of work from its queue when that is used up. It
// never blocks: if the queue has nothing, the read waits in line, without a thread, and those that come later wait
// behind it. Reads are served in the order of their arrival. A read that is waiting ends when its step does.
//
// One thread at a time has the *turn*: it alone touches the work and the files, without the lock, so that a queue can
// be called without holding it. Callbacks run without the lock. Thread-safe.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "resource/queue.h"
#include "tensor/resource_handle.h"
#include "thread/cancellation.h"

namespace thalweg {

class Reader : public Resource, public std::enable_shared_from_this<Reader> {
 public:
  struct Records {
    std::vector<std::string> keys, values;
  };
  using Done = std::function<void(std::optional<Error>, Records)>;

  explicit Reader(std::string name) : name_(std::move(name)) {}

  // Reads up to `count` records, at least one: no more than the work in progress has. False, with nothing changed, if
  // that would mean waiting for work. Throws the error that the callback of `read` would get.
  bool try_read(Queue& queue, int64_t count, Records& records);
  // The handle keeps the queue alive.
  void read(ResourceHandle queue, int64_t count, Cancellation& cancellation, Done done);

  int64_t num_records_produced();
  int64_t num_work_units_completed();
  // Forgets the work in progress and all counts.
  void reset();
  // The state as a ReaderBaseState message. Unimplemented for readers that would have to store a place in a file.
  std::string serialize();
  void restore(const std::string& state);

 protected:
  // For subclasses, by the thread that has the turn.
  virtual void open(const std::string& work) = 0;
  virtual void close() = 0;
  // The next record; false at the end of the work.
  virtual bool next(std::string& key, std::string& value) = 0;
  // Whether each piece of work is one record, so that nothing but counts has to be saved.
  virtual bool one_record_each() const { return false; }

 private:
  struct Request;
  using Line = std::list<std::shared_ptr<Request>>;
  class Turn;
  enum class State { idle, taken, waiting };  // waiting: for a queue, on behalf of the first in line

  bool read_some(Queue& queue, int64_t count, Records& records);
  bool read_work(int64_t count, Records& records);
  void check_queue(const Queue& queue) const;
  void begin_work(const Queue::Tuple& tuple);
  void finish_work();
  void forget();
  void give_back(State state);
  void cancel(const std::shared_ptr<Request>& request);
  // Serves the line, with the turn, until it is empty or the first in it must wait for its queue.
  void serve();
  void resume(const std::shared_ptr<Request>& request, std::optional<Error> error, const Queue::Tuple& tuple);
  bool serve_first(const std::shared_ptr<Request>& request);

  const std::string name_;
  std::mutex mutex_;  // guards the state and the line
  std::condition_variable given_back_;
  State state_ = State::idle;
  Line line_;

  // Of the thread that has the turn.
  std::string work_;
  bool in_progress_ = false;
  int64_t work_started_ = 0, work_finished_ = 0, records_produced_ = 0;
};

}  // namespace thalweg
