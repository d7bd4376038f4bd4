// CollectiveRun: one member's side of one run of a collective operation.
//
// A *contribution* is the whole input of its sender, or the part of it that the receiver shall merge, with the header
// of the call; a *result* is a merged chunk, for everybody. Where two members share memory, a message only says where
// the elements are (net/loans.h): merging reads the peers' memory in place. There are three ways to reduce:
//
// - whole: a small tensor travels whole, and everybody merges all of it;
// - in chunks: rank k merges chunk k, and tells the others: two messages for each pair of members, each with 1/size of
//   the elements;
// - in lanes, if the group has several members on some of several hosts (net/host_layout.h): the members of a host give
//   each lane to one of them, which merges it for the host; those that have the same lane on all hosts exchange these
//   *partial* results, each of them merges one chunk of the lane, and the results go to everybody. All other members
//   get the header only, so that everybody finds the same disagreements.
//
// The order in which elements are merged is that of the layout in each of them: the bits depend on nothing else.
//
// What a member has for everybody (the result of a chunk of a lane, its input for a gather, the root's for a broadcast)
// reaches the members of another host through one of them, which passes it on when its own call has begun: until then
// it counts as what the first sender has sent ahead.
//
// A run exists from the first message or the local call, whichever comes first. Thread-safe; loops over elements run by
// run_soon, and never with the lock held. `done` is called once, after all that this member sends has been sent.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "net/collective_call.h"
#include "net/host_layout.h"

namespace thalweg::net {

class CollectiveRun : public std::enable_shared_from_this<CollectiveRun> {
 public:
  enum class Phase : uint8_t { contribution = 1, result, abort, partial };
  // Sends to another member; must not throw. `origin` is the member that the message comes from in the first place.
  // Only a contribution has a header.
  using Send =
      std::function<void(int destination, Phase phase, int origin, const CollectiveHeader* header, Tensor value)>;
  // Larger tensors are merged in chunks, and still larger ones in lanes, in bytes.
  static constexpr size_t kWhole = 64 << 10;
  static constexpr size_t kInChunks = 256 << 10;

  CollectiveRun(int rank, std::shared_ptr<const HostLayout> layout, Send send)
      : rank_(rank), size_(layout->size()), layout_(std::move(layout)), send_(std::move(send)), given_(size_) {}

  // The local member's call.
  void start(CollectiveCall call, CollectiveDone done);
  // Messages of other members, by their origins. Those that fit no such run fail it.
  void contributed(int origin, CollectiveHeader header, Tensor value);
  void partly_merged(int source, Tensor value);
  void resulted(int origin, Tensor value);
  // Ends the run with this error, unless it has ended, or all messages have arrived: then it ends by itself.
  void fail(const Error& error);
  // Ends the run with this error in any case, unless it has ended.
  void fail_now(const Error& error);

  bool is_started();
  // Whether the run has been started, and waits for a message of this rank.
  bool needs(int rank);
  // The ranks whose messages are missing, those that others pass on included.
  std::vector<int> missing();

 private:
  struct Contribution {
    bool there = false;
    CollectiveHeader header;
    Tensor value;
  };
  enum class Way { whole, in_chunks, in_lanes };
  // Some of the elements of the tensor.
  struct Range {
    int64_t begin, count;
  };
  Way choose_way() const;
  Range range(int first, int count, int num_chunks) const;
  // The chunk that a member merges, and the lane that it merges for its host; empty for a member that does not.
  Range chunk(int rank) const;
  Range lane(int rank) const;
  bool owns_lane() const { return way_ == Way::in_lanes && layout_->chunk(rank_) >= 0; }
  int sender_of_contribution(int origin) const;
  bool complete() const;
  bool needs_locked(int rank) const;
  // Whether a message that comes from this rank in the first place is missing.
  bool lacks(int origin) const;
  void contribute(const CollectiveCall& call);
  bool is_passed_on(int origin, const CollectiveHeader& header) const;
  // Sends what `origin` has for everybody to those that get it from this member.
  void send_on(Phase phase, int origin, const CollectiveHeader* header, const Tensor& value);
  // The same, for the contribution of another member.
  void pass_on_soon(int origin, CollectiveHeader header, Tensor value);
  void advance();
  void work();
  void check(const std::vector<Contribution>& given) const;
  // Some of the output; undefined if the run has ended.
  Tensor output_part(Range part);
  void reduce(const std::vector<Contribution>& given);
  // Merges what all members have given, in the order of the layout.
  void merge_all(const std::vector<const void*>& inputs, void* out, int64_t count) const;
  void merge_lane(const std::vector<Contribution>& given);
  void note_partial(int host, Tensor value);
  void merge_hosts();
  void gather(const std::vector<Contribution>& given);
  void place(int origin, const Tensor& value);
  void fail_to_fit(int source);
  void piece_done();
  void finish(std::optional<Error> error, Tensor value);

  const int rank_, size_;
  const std::shared_ptr<const HostLayout> layout_;
  const Send send_;

  std::mutex mutex_;  // guards everything below
  bool started_ = false, working_ = false, finished_ = false;
  std::optional<Error> why_;  // of a run that has failed
  CollectiveCall call_;       // written once, by `start`
  Way way_ = Way::whole;      // so is this
  CollectiveDone done_;
  std::vector<Contribution> given_;  // by rank
  int arrived_ = 0;                  // -1: `work` has taken what was given
  int passing_on_ = 0;               // contributions of others
  Tensor output_;                    // of a reduction in chunks or lanes
  int missing_pieces_ = 0;
  std::vector<bool> placed_;      // by rank: the results of chunks; true for members that merge none
  std::vector<Tensor> partials_;  // by host: of the chunk of this member
  int missing_partials_ = 0;
};

// `count` elements from `begin` on, as a vector that shares the buffer.
Tensor elements_of(const Tensor& tensor, int64_t begin, int64_t count);

}  // namespace thalweg::net
