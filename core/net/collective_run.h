// CollectiveRun: one member's side of one run of a collective operation.
//
// Members exchange two kinds of messages. A *contribution* is the whole input of its sender, or the chunk of it that
// the receiver shall merge, with the header of the call; a *result* is a merged chunk. Chunk k belongs to rank k, which
// merges it in the order of the ranks, and tells the others. So an all-reduce takes two messages for each pair of
// members, each with 1/size of the elements; a tensor that is too small for that travels whole, and everybody merges
// all of it. Where two members share memory, a message only says where the elements are (net/loans.h): merging reads
// the peers' memory in place.
//
// A run exists from the first message or the local call, whichever comes first. Thread-safe; loops over elements run by
// run_soon, and never with the lock held. `done` is called once.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "net/collective_call.h"

namespace thalweg::net {

class CollectiveRun : public std::enable_shared_from_this<CollectiveRun> {
 public:
  enum class Phase : uint8_t { contribution = 1, result, abort };
  // Sends to another member; must not throw. A result has no header.
  using Send = std::function<void(int destination, Phase phase, const CollectiveHeader* header, Tensor value)>;
  // Larger tensors are merged in chunks.
  static constexpr size_t kWhole = 64 << 10;

  CollectiveRun(int rank, int size, Send send) : rank_(rank), size_(size), send_(std::move(send)), given_(size) {}

  // The local member's call.
  void start(CollectiveCall call, CollectiveDone done);
  // Messages of other members. Those that fit no such run fail it.
  void contributed(int source, CollectiveHeader header, Tensor value);
  void resulted(int source, Tensor value);
  // Ends the run with this error, unless it has ended, or all messages have arrived: then it ends by itself.
  void fail(const Error& error);
  // Ends the run with this error in any case, unless it has ended.
  void fail_now(const Error& error);

  bool is_started();
  // Whether the run has been started, and waits for a message of this rank.
  bool needs(int rank);
  // The ranks whose messages are missing.
  std::vector<int> missing();

 private:
  struct Contribution {
    bool there = false;
    CollectiveHeader header;
    Tensor value;
  };
  // The elements of a chunk of the tensor.
  struct Range {
    int64_t begin, count;
  };
  Range chunk(int rank) const;
  bool in_chunks() const;
  bool complete() const;
  bool needs_locked(int rank) const;
  void advance();
  void work();
  void check(const std::vector<Contribution>& given) const;
  void reduce(const std::vector<Contribution>& given);
  void gather(const std::vector<Contribution>& given);
  void place(int source, const Tensor& value);
  void piece_done();
  void finish(std::optional<Error> error, Tensor value);

  const int rank_, size_;
  const Send send_;

  std::mutex mutex_;  // guards everything below
  bool started_ = false, working_ = false, finished_ = false;
  std::optional<Error> why_;  // of a run that has failed
  CollectiveCall call_;       // written once, by `start`
  CollectiveDone done_;
  std::vector<Contribution> given_;  // by rank
  int arrived_ = 0;
  Tensor output_;  // of a reduction in chunks
  int missing_pieces_ = 0;
  std::vector<bool> placed_;
};

// `count` elements from `begin` on, as a vector that shares the buffer.
Tensor elements_of(const Tensor& tensor, int64_t begin, int64_t count);

}  // namespace thalweg::net
