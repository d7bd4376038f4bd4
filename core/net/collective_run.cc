// Contributions, chunks, merging and results of a collective operation.
#include "net/collective_run.h"

#include <algorithm>
#include <cstring>

#include "memory/account.h"
#include "memory/shared_arena.h"
#include "thread/parallel.h"
#include "thread/run_soon.h"

namespace thalweg::net {
namespace {

// Loans begin at multiples of this (net/loans.h).
constexpr int64_t kAlignment = 64;
constexpr int64_t kGrain = 1 << 20;

void copy_bytes(void* to, const void* from, size_t bytes) {
  parallel_for(static_cast<int64_t>(bytes), kGrain, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                static_cast<size_t>(end - begin));
  });
}

}  // namespace

const char* name_of(Collective kind) {
  switch (kind) {
    case Collective::reduce:
      return "reduce";
    case Collective::reduce_scatter:
      return "reduce-scatter";
    case Collective::gather:
      return "gather";
    case Collective::broadcast:
      return "broadcast";
    case Collective::barrier:
      return "barrier";
  }
  return "unknown";
}

void CollectiveHeader::put(Writer& writer) const {
  writer.put(kind).put(dtype).put(merge).put(static_cast<uint8_t>(divides)).put(static_cast<uint8_t>(is_root));
  writer.put(static_cast<uint8_t>(shape.rank()));
  for (int64_t dim : shape) writer.put(dim);
}

CollectiveHeader CollectiveHeader::take(Parser& parser) {
  CollectiveHeader header;
  const auto kind = parser.take<uint8_t>(), dtype = parser.take<uint8_t>(), merge = parser.take<uint8_t>();
  require(kind >= 1 && kind <= static_cast<uint8_t>(Collective::barrier), "a frame has the unknown collective ",
          int{kind});
  require(dtype <= static_cast<uint8_t>(DType::uint64), "a frame has a collective of the type ", int{dtype});
  require(merge >= 1 && merge <= static_cast<uint8_t>(Merge::maximum), "a frame has the unknown merge_op ", int{merge});
  header.kind = static_cast<Collective>(kind);
  header.dtype = static_cast<DType>(dtype);
  header.merge = static_cast<Merge>(merge);
  header.divides = parser.take<uint8_t>() != 0;
  header.is_root = parser.take<uint8_t>() != 0;
  const int rank = parser.take<uint8_t>();
  require(rank <= Shape::kMaxRank, "a frame has a tensor of rank ", rank);
  int64_t dims[Shape::kMaxRank];
  for (int i = 0; i < rank; ++i) dims[i] = parser.take<int64_t>();
  header.shape = Shape(std::span<const int64_t>(dims, static_cast<size_t>(rank)));
  return header;
}

Tensor elements_of(const Tensor& tensor, int64_t begin, int64_t count) {
  require(begin >= 0 && count >= 0 && begin + count <= tensor.num_elements(), "elements [", begin, ", ", begin + count,
          ") are outside a tensor of shape ", tensor.shape());
  if (tensor.buffer()) tensor.buffer()->ref();
  return Tensor(tensor.dtype(), Shape{count}, tensor.buffer(),
                static_cast<char*>(tensor.raw()) + static_cast<size_t>(begin) * size_of(tensor.dtype()));
}

CollectiveRun::Range CollectiveRun::chunk(int rank) const {
  const int64_t count = call_.header.shape.num_elements();
  int64_t each = (count + size_ - 1) / size_;
  if (call_.header.kind == Collective::reduce) {
    const int64_t step = kAlignment / std::min<int64_t>(kAlignment, static_cast<int64_t>(size_of(call_.header.dtype)));
    each = (each + step - 1) / step * step;
  }
  const int64_t begin = std::min(count, each * rank);
  return {begin, std::min(count, begin + each) - begin};
}

bool CollectiveRun::in_chunks() const {
  if (call_.header.kind == Collective::reduce_scatter) return true;
  const size_t bytes = static_cast<size_t>(call_.header.shape.num_elements()) * size_of(call_.header.dtype);
  return call_.header.kind == Collective::reduce && size_ > 1 && bytes > kWhole;
}

void CollectiveRun::start(CollectiveCall call, CollectiveDone done) {
  if (call.root >= 0) {
    require(call.root < size_, "the root of a broadcast is rank ", call.root, " of a group of ", size_);
    call.header.is_root = call.root == rank_;
  }
  const bool gives = call.header.kind != Collective::broadcast || call.header.is_root;
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
    if (in_chunks() && call.header.kind == Collective::reduce) {
      SharedScope shared;  // Peers read what is computed here.
      output_ = Tensor(call.header.dtype, call.header.shape);
      missing_pieces_ = size_;
      placed_.resize(size_);
    }
    if (gives) {
      given_[rank_] = {true, call.header, call.input};
      ++arrived_;
    }
  }
  if (gives) {
    for (int i = 1; i < size_; ++i) {
      // Each member begins with another peer.
      const int to = (rank_ + i) % size_;
      Tensor value = call.input;
      if (in_chunks()) {
        const Range range = chunk(to);
        value = elements_of(call.input, range.begin, range.count);
      }
      send_(to, Phase::contribution, &call.header, std::move(value));
    }
  }
  advance();
}

void CollectiveRun::contributed(int source, CollectiveHeader header, Tensor value) {
  {
    std::lock_guard lock(mutex_);
    if (finished_ || given_[source].there) return;
    given_[source] = {true, std::move(header), std::move(value)};
    ++arrived_;
  }
  advance();
}

bool CollectiveRun::complete() const {
  if (!started_ || finished_) return false;
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
    const int64_t expected = in_chunks() ? chunk(rank_).count : each.header.shape.num_elements();
    require(each.value.defined() && each.value.dtype() == own.dtype && each.value.num_elements() == expected, "rank ",
            rank, " of collective group ", call_.group, " sent other elements than it announced");
  }
}

void CollectiveRun::reduce(const std::vector<Contribution>& given) {
  const CollectiveHeader& header = call_.header;
  const bool scatters = header.kind == Collective::reduce_scatter;
  const Range own = in_chunks() ? chunk(rank_) : Range{0, header.shape.num_elements()};
  Tensor result;
  if (scatters)
    result = Tensor(header.dtype, header.shape.with_dim(0, header.shape[0] / size_));
  else if (in_chunks())
    result = elements_of(output_, own.begin, own.count);
  else
    result = Tensor(header.dtype, header.shape);
  std::vector<const void*> inputs;
  for (int rank = 0; rank < size_; ++rank) {
    const bool whole = rank == rank_ && in_chunks();
    inputs.push_back(static_cast<const char*>(given[rank].value.raw()) +
                     (whole ? static_cast<size_t>(own.begin) * size_of(header.dtype) : 0));
  }
  merge(header.dtype, header.merge, header.divides, inputs, result.raw(), own.count);
  if (scatters || !in_chunks()) return finish(std::nullopt, std::move(result));
  for (int i = 1; i < size_; ++i) send_((rank_ + i) % size_, Phase::result, nullptr, result);
  result.reset();
  piece_done();
}

void CollectiveRun::gather(const std::vector<Contribution>& given) {
  int64_t rows = 0;
  for (const Contribution& each : given)
    require(!__builtin_add_overflow(rows, each.header.shape[0], &rows), "the gathered tensor has too many rows");
  Tensor output(call_.header.dtype, call_.header.shape.with_dim(0, rows));
  int64_t at = 0;
  for (const Contribution& each : given) {
    const int64_t count = each.header.shape.num_elements();
    const size_t width = size_of(output.dtype());
    char* to = static_cast<char*>(output.raw()) + static_cast<size_t>(at) * width;
    if (is_plain(output.dtype()))
      copy_bytes(to, each.value.raw(), static_cast<size_t>(count) * width);
    else
      copy_elements(output.dtype(), to, each.value.raw(), count);
    at += count;
  }
  finish(std::nullopt, std::move(output));
}

void CollectiveRun::resulted(int source, Tensor value) {
  {
    std::lock_guard lock(mutex_);
    if (finished_) return;
    const bool fits = started_ && output_.defined() && source != rank_ && !placed_[source] && value.defined() &&
                      value.dtype() == output_.dtype() && value.num_elements() == chunk(source).count;
    if (fits) placed_[source] = true;
    if (!fits) value.reset();
  }
  if (!value.defined())
    return fail_now(
        Error(Code::internal, cat("rank ", source, " of a collective group sent a result that does not fit")));
  run_soon(0, [self = shared_from_this(), source, value = std::move(value)] { self->place(source, value); });
}

void CollectiveRun::place(int source, const Tensor& value) {
  Tensor output;
  {
    std::lock_guard lock(mutex_);
    if (finished_) return;
    output = output_;
  }
  copy_bytes(static_cast<char*>(output.raw()) + static_cast<size_t>(chunk(source).begin) * size_of(output.dtype()),
             value.raw(), value.bytes());
  output.reset();
  piece_done();
}

void CollectiveRun::piece_done() {
  Tensor output;
  {
    std::lock_guard lock(mutex_);
    if (--missing_pieces_ > 0 || finished_) return;
    output = std::move(output_);
  }
  finish(std::nullopt, std::move(output));
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
  Tensor input, output;
  {
    std::lock_guard lock(mutex_);
    if (finished_) return;
    finished_ = true;
    why_ = error;
    done.swap(done_);
    dropped.swap(given_);
    given_.resize(size_);
    output = std::move(output_);
    input = std::move(call_.input);
  }
  dropped.clear();
  if (done) done(std::move(error), std::move(value));
}

bool CollectiveRun::is_started() {
  std::lock_guard lock(mutex_);
  return started_;
}

bool CollectiveRun::needs_locked(int rank) const {
  if (!started_ || finished_ || rank == rank_) return false;
  if (call_.header.kind == Collective::broadcast) return arrived_ == 0 && (call_.root < 0 || call_.root == rank);
  // `work` has taken the contributions when `arrived_` is -1.
  return (arrived_ >= 0 && !given_[rank].there) || (!placed_.empty() && !placed_[rank]);
}

bool CollectiveRun::needs(int rank) {
  std::lock_guard lock(mutex_);
  return needs_locked(rank);
}

std::vector<int> CollectiveRun::missing() {
  std::vector<int> ranks;
  std::lock_guard lock(mutex_);
  for (int rank = 0; rank < size_; ++rank)
    if (needs_locked(rank)) ranks.push_back(rank);
  return ranks;
}

}  // namespace thalweg::net
