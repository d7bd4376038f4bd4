// The members of a collective group without sockets: a seed decides the order in which their messages arrive.
#pragma once

#include <condition_variable>
#include <deque>
#include <random>
#include <thread>

#include "check.h"
#include "net/collective_run.h"

namespace native_tests {

using namespace thalweg;
using namespace thalweg::net;

// The members of a group, joined by a queue of messages.
class Members {
 public:
  // Each on its own host.
  Members(int size, uint64_t seed) : Members(std::vector<std::string>(static_cast<size_t>(size)), seed) {}
  Members(const std::vector<std::string>& hosts, uint64_t seed)
      : layout(std::make_shared<const HostLayout>(hosts)), errors(hosts.size()), outputs(hosts.size()), random_(seed) {
    for (int rank = 0; rank < layout->size(); ++rank)
      runs.push_back(std::make_shared<CollectiveRun>(
          rank, layout, [this, rank](int to, auto phase, int origin, const CollectiveHeader* header, Tensor value) {
            send(rank, to, phase, origin, header, std::move(value));
          }));
  }

  // Work of runs that have failed may still send.
  ~Members() {
    for (const auto& run : runs)
      while (run.use_count() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::lock_guard lock(mutex_);  // Sees all that they have sent.
  }

  CollectiveDone done(int rank) {
    return [this, rank](std::optional<Error> error, Tensor value) {
      std::lock_guard lock(mutex_);
      errors[rank] = std::move(error);
      outputs[rank] = std::move(value);
      ++ended_;
      changed_.notify_all();
    };
  }

  // Waits until so many members have ended.
  void wait(size_t count) {
    std::unique_lock lock(mutex_);
    CHECK(changed_.wait_for(lock, std::chrono::seconds(20), [&] { return ended_ >= count; }));
  }

  // Starts all members, each before or after any message, and delivers until all have ended.
  void run(const std::vector<CollectiveCall>& calls) {
    std::vector<int> unstarted;
    for (size_t rank = 0; rank < calls.size(); ++rank) unstarted.push_back(static_cast<int>(rank));
    std::unique_lock lock(mutex_);
    while (ended_ < calls.size()) {
      const size_t choices = unstarted.size() + messages_.size();
      if (choices == 0) {
        CHECK(changed_.wait_for(lock, std::chrono::seconds(20),
                                [&] { return !messages_.empty() || ended_ == calls.size(); }));
        continue;
      }
      const size_t choice = random_() % choices;
      if (choice < unstarted.size()) {
        const int rank = unstarted[choice];
        unstarted.erase(unstarted.begin() + static_cast<ptrdiff_t>(choice));
        lock.unlock();
        runs[rank]->start(calls[rank], done(rank));
      } else {
        const auto at = messages_.begin() + static_cast<ptrdiff_t>(choice - unstarted.size());
        Message message = std::move(*at);
        messages_.erase(at);
        lock.unlock();
        deliver(std::move(message));
      }
      lock.lock();
    }
  }

  // Bytes of the elements that members on different hosts have sent each other.
  size_t bytes_between_hosts() {
    std::lock_guard lock(mutex_);
    return between_hosts_;
  }

  const std::shared_ptr<const HostLayout> layout;
  std::vector<std::shared_ptr<CollectiveRun>> runs;
  std::vector<std::optional<Error>> errors;
  std::vector<Tensor> outputs;

 private:
  struct Message {
    int from, to;
    CollectiveRun::Phase phase;
    int origin;
    CollectiveHeader header;
    Tensor value;
  };

  void send(int from, int to, CollectiveRun::Phase phase, int origin, const CollectiveHeader* header, Tensor value) {
    CHECK(origin == from || layout->sender(origin, to) == from);
    std::lock_guard lock(mutex_);
    if (value.defined() && !layout->share_host(from, to)) between_hosts_ += value.bytes();
    messages_.push_back({from, to, phase, origin, header != nullptr ? *header : CollectiveHeader(), std::move(value)});
    changed_.notify_all();
  }

  void deliver(Message message) {
    CollectiveRun& run = *runs[message.to];
    if (message.phase == CollectiveRun::Phase::contribution)
      run.contributed(message.origin, std::move(message.header), std::move(message.value));
    else if (message.phase == CollectiveRun::Phase::partial)
      run.partly_merged(message.from, std::move(message.value));
    else
      run.resulted(message.origin, std::move(message.value));
  }

  std::mt19937_64 random_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Message> messages_;
  size_t ended_ = 0;
  size_t between_hosts_ = 0;
};

inline CollectiveCall call_of(Collective kind, Tensor input) {
  CollectiveCall call;
  call.header.kind = kind;
  if (input.defined()) {
    call.header.dtype = input.dtype();
    call.header.shape = input.shape();
  }
  call.input = std::move(input);
  return call;
}

inline Tensor random_values(int64_t count, uint64_t seed) {
  Tensor values(DType::float32, Shape{count});
  std::mt19937_64 random(seed);
  for (int64_t i = 0; i < count; ++i) values.flat<float>()[i] = std::normal_distribution<float>()(random);
  return values;
}

}  // namespace native_tests
