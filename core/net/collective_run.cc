// Calls, contributions, checks and the end of a run; merging and results are in collective_reduce.cc.
#include "net/collective_run.h"

#include <algorithm>

#include "memory/account.h"
#include "memory/shared_arena.h"
#include "net/loans.h"
#include "thread/run_soon.h"

namespace thalweg::net {

Tensor elements_of(const Tensor& tensor, int64_t begin, int64_t count) {
  require(begin >= 0 && count >= 0 && begin + count <= tensor.num_elements(), "elements [", begin, ", ", begin + count,
          ") are outside a tensor of shape ", tensor.shape());
  if (tensor.buffer()) tensor.buffer()->ref();
  return Tensor(tensor.dtype(), Shape{count}, tensor.buffer(),
                static_cast<char*>(tensor.raw()) + static_cast<size_t>(begin) * size_of(tensor.dtype()));
}

int CollectiveRun::sender_of_contribution(int origin) const {
  const bool for_everybody = call_.header.kind == Collective::gather || call_.header.kind == Collective::broadcast;
  return for_everybody ? layout_->sender(origin, rank_) : origin;
}

void CollectiveRun::start(CollectiveCall call, CollectiveDone done) {
  if (call.root >= 0) {
    require(call.root < size_, "the root of a broadcast is rank ", call.root, " of a group of ", size_);
    call.header.is_root = call.root == rank_;
  }
  call.header.layout = layout_->digest();
  const bool gives = call.header.kind != Collective::broadcast || call.header.is_root;
  std::vector<std::pair<int, Contribution>> passed_on;
  {
    std::unique_lock lock(mutex_);
    require(!started_, "this run of a collective operation was started already");
    if (why_) {
      lock.unlock();
      return done(why_, Tensor());
    }
    call_ = call;
    done_ = std::move(done);
    started_ = true;
    way_ = choose_way();
    if (call.header.kind == Collective::reduce && way_ != Way::whole) {
      SharedScope shared;  // Peers read what is computed here.
      output_ = Tensor(call.header.dtype, call.header.shape);
      placed_.resize(size_);
      for (int rank = 0; rank < size_; ++rank) placed_[rank] = way_ == Way::in_lanes && layout_->chunk(rank) < 0;
      missing_pieces_ = static_cast<int>(std::count(placed_.begin(), placed_.end(), false));
    }
    if (owns_lane()) {
      partials_.resize(layout_->num_hosts());
      missing_partials_ = layout_->num_hosts();
    }
    for (int rank = 0; rank < size_; ++rank)
      if (given_[rank].there && is_passed_on(rank, given_[rank].header)) passed_on.emplace_back(rank, given_[rank]);
    passing_on_ += static_cast<int>(passed_on.size());
    if (gives) {
      given_[rank_] = {true, call.header, call.input};
      ++arrived_;
    }
  }
  if (gives) contribute(call);
  for (auto& [origin, each] : passed_on) pass_on_soon(origin, std::move(each.header), std::move(each.value));
  advance();
}

void CollectiveRun::contribute(const CollectiveCall& call) {
  const Collective kind = call.header.kind;
  if (kind == Collective::gather || kind == Collective::broadcast)
    return send_on(Phase::contribution, rank_, &call.header, call.input);
  for (int i = 1; i < size_; ++i) {
    // Each member begins with another peer.
    const int to = (rank_ + i) % size_;
    Tensor value = call.input;
    if (way_ == Way::in_lanes && (!layout_->share_host(to, rank_) || layout_->chunk(to) < 0)) {
      value = Tensor();
    } else if (way_ != Way::whole) {
      const Range part = way_ == Way::in_lanes ? lane(to) : chunk(to);
      value = elements_of(call.input, part.begin, part.count);
    }
    send_(to, Phase::contribution, rank_, &call.header, std::move(value));
  }
}

void CollectiveRun::send_on(Phase phase, int origin, const CollectiveHeader* header, const Tensor& value) {
  for (int i = 1; i < size_; ++i) {
    const int to = (rank_ + i) % size_;
    if (to != origin && layout_->sender(origin, to) == rank_) send_(to, phase, origin, header, value);
  }
}

bool CollectiveRun::is_passed_on(int origin, const CollectiveHeader& header) const {
  if (header.kind != Collective::gather && header.kind != Collective::broadcast) return false;
  return !layout_->share_host(origin, rank_) && layout_->members(layout_->host(rank_)).size() > 1 &&
         layout_->sender(origin, rank_) == origin;
}

void CollectiveRun::pass_on_soon(int origin, CollectiveHeader header, Tensor value) {
  run_soon(0, [self = shared_from_this(), origin, header = std::move(header), value = std::move(value)]() mutable {
    // One copy in shared memory, not one for each peer.
    SharedArena* arena = SharedArena::existing();
    const bool is_lent = value.defined() && is_plain(value.dtype()) && value.bytes() >= Loans::kLeast;
    if (is_lent && arena != nullptr && !arena->contains(value.raw())) {
      SharedScope shared;
      try {
        value = value.clone();
      } catch (const Error&) {
        // No memory for it: the peers get it as it is.
      }
    }
    self->send_on(Phase::contribution, origin, &header, value);
    {
      std::lock_guard lock(self->mutex_);
      --self->passing_on_;
    }
    self->advance();
  });
}

void CollectiveRun::contributed(int origin, CollectiveHeader header, Tensor value) {
  Contribution passed_on;
  {
    std::lock_guard lock(mutex_);
    if (finished_ || arrived_ < 0 || given_[origin].there) return;
    given_[origin] = {true, std::move(header), std::move(value)};
    ++arrived_;
    if (started_ && is_passed_on(origin, given_[origin].header)) {
      passed_on = given_[origin];
      ++passing_on_;
    }
  }
  if (passed_on.there) pass_on_soon(origin, std::move(passed_on.header), std::move(passed_on.value));
  advance();
}

bool CollectiveRun::complete() const {
  if (!started_ || finished_ || passing_on_ > 0) return false;
  if (call_.header.kind != Collective::broadcast) return arrived_ == size_;
  return arrived_ > 0;  // the root's
}

void CollectiveRun::advance() {
  {
    std::lock_guard lock(mutex_);
    if (working_ || !complete()) return;
    working_ = true;
  }
  run_soon(0, [self = shared_from_this()] { self->work(); });
}

void CollectiveRun::work() {
  AccountScope scope(call_.account);
  std::vector<Contribution> given;
  {
    std::lock_guard lock(mutex_);
    if (finished_) return;
    given.swap(given_);
    given_.resize(size_);
    arrived_ = -1;
  }
  try {
    check(given);
    switch (call_.header.kind) {
      case Collective::reduce:
      case Collective::reduce_scatter:
        return reduce(given);
      case Collective::gather:
        return gather(given);
      case Collective::broadcast: {
        const auto root = std::find_if(given.begin(), given.end(), [](const auto& each) { return each.there; });
        return finish(std::nullopt, std::move(root->value));
      }
      case Collective::barrier:
        return finish(std::nullopt, Tensor());
    }
  } catch (const Error& error) {
    finish(error, Tensor());
  } catch (const std::exception& exception) {
    finish(Error(Code::internal, exception.what()), Tensor());
  }
}

// Compares all headers with that of the first member that sent one.
void CollectiveRun::check(const std::vector<Contribution>& given) const {
  const Contribution* first = nullptr;
  for (int rank = 0; rank < size_; ++rank) {
    const Contribution& each = given[rank];
    if (!each.there) continue;
    if (first == nullptr) first = &each;
    const CollectiveHeader &a = first->header, &b = each.header;
    auto disagree = [&](const auto& what, const auto& one, const auto& other) {
      thalweg::fail(Code::invalid_argument, "the members of collective group ", call_.group,
                    " disagree about instance ", call_.instance, ": ", what, " is ", one, " at rank ",
                    first - given.data(), " and ", other, " at rank ", rank);
    };
    if (a.kind != b.kind) disagree("the operation", name_of(a.kind), name_of(b.kind));
    if (a.dtype != b.dtype) disagree("the type", a.dtype, b.dtype);
    if (a.merge != b.merge) disagree("merge_op", static_cast<int>(a.merge), static_cast<int>(b.merge));
    if (a.layout != b.layout) disagree("the list of hosts, as a number,", a.layout, b.layout);
    if (a.divides != b.divides) disagree("final_op", a.divides ? "Div" : "Id", b.divides ? "Div" : "Id");
    const bool same = a.kind != Collective::gather ? a.shape == b.shape
                                                   : a.shape.rank() == b.shape.rank() && a.shape.rank() > 0 &&
                                                         a.shape.with_dim(0, 0) == b.shape.with_dim(0, 0);
    if (!same) disagree("the shape", a.shape, b.shape);
  }
  const CollectiveHeader &own = call_.header, &other = first->header;
  require(own.kind == other.kind && own.dtype == other.dtype, "instance ", call_.instance, " of collective group ",
          call_.group, " is a ", name_of(other.kind), " of ", other.dtype, " at rank ", first - given.data(), " and a ",
          name_of(own.kind), " of ", own.dtype, " at rank ", rank_);
  if (own.kind == Collective::reduce_scatter)
    require(own.shape.rank() > 0 && own.shape[0] % size_ == 0, "a reduce-scatter over ", size_,
            " members needs as many rows, or a multiple, got shape ", own.shape);
  // Peers decide what they send, so nothing is read before its size is known to be right.
  for (int rank = 0; rank < size_; ++rank) {
    const Contribution& each = given[rank];
    if (!each.there || rank == rank_ || own.kind == Collective::barrier) continue;
    if (way_ == Way::in_lanes && (!owns_lane() || !layout_->share_host(rank, rank_))) continue;
    int64_t expected = each.header.shape.num_elements();
    if (way_ != Way::whole) expected = way_ == Way::in_lanes ? lane(rank_).count : chunk(rank_).count;
    require(each.value.defined() && each.value.dtype() == own.dtype && each.value.num_elements() == expected, "rank ",
            rank, " of collective group ", call_.group, " sent other elements than it announced");
  }
}

void CollectiveRun::fail(const Error& error) {
  {
    std::lock_guard lock(mutex_);
    bool waits = !started_;
    for (int rank = 0; rank < size_; ++rank) waits = waits || needs_locked(rank);
    if (!waits) return;
  }
  fail_now(error);
}

void CollectiveRun::fail_now(const Error& error) { finish(error, Tensor()); }

void CollectiveRun::finish(std::optional<Error> error, Tensor value) {
  CollectiveDone done;
  std::vector<Contribution> dropped;
  std::vector<Tensor> partials(layout_->num_hosts());
  Tensor input, output;
  {
    std::lock_guard lock(mutex_);
    if (finished_) return;
    finished_ = true;
    why_ = error;
    done.swap(done_);
    dropped.swap(given_);
    given_.resize(size_);
    partials.swap(partials_);
    output = std::move(output_);
    input = std::move(call_.input);
  }
  dropped.clear();
  partials.clear();
  if (done) done(std::move(error), std::move(value));
}

bool CollectiveRun::is_started() {
  std::lock_guard lock(mutex_);
  return started_;
}

bool CollectiveRun::needs_locked(int rank) const {
  if (!started_ || finished_ || rank == rank_) return false;
  if (call_.header.kind == Collective::broadcast) {
    if (arrived_ != 0) return false;
    return call_.root < 0 ? layout_->sends_to(rank, rank_)
                          : layout_->sender(static_cast<int>(call_.root), rank_) == rank;
  }
  for (int origin = 0; origin < size_; ++origin) {
    if (origin == rank_) continue;
    if (arrived_ >= 0 && !given_[origin].there && sender_of_contribution(origin) == rank) return true;
    const int tells = way_ == Way::in_lanes ? layout_->sender(origin, rank_) : origin;
    if (!placed_.empty() && !placed_[origin] && tells == rank) return true;
  }
  return owns_lane() && layout_->lane(rank) == layout_->lane(rank_) && missing_partials_ > 0 &&
         !partials_[layout_->host(rank)].defined();
}

bool CollectiveRun::lacks(int origin) const {
  if (!started_ || finished_ || origin == rank_) return false;
  if (call_.header.kind == Collective::broadcast) return arrived_ == 0 && call_.root == origin;
  return (arrived_ >= 0 && !given_[origin].there) || (!placed_.empty() && !placed_[origin]);
}

bool CollectiveRun::needs(int rank) {
  std::lock_guard lock(mutex_);
  return needs_locked(rank);
}

std::vector<int> CollectiveRun::missing() {
  std::vector<int> ranks;
  std::lock_guard lock(mutex_);
  for (int rank = 0; rank < size_; ++rank)
    if (needs_locked(rank) || lacks(rank)) ranks.push_back(rank);
  return ranks;
}

}  // namespace thalweg::net
