// The three ways to reduce, gathering, and results of a collective operation.
#include <algorithm>
#include <cstring>

#include "net/collective_run.h"
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

const void* element(const Tensor& tensor, int64_t at) {
  return static_cast<const char*>(tensor.raw()) + static_cast<size_t>(at) * size_of(tensor.dtype());
}

}  // namespace

CollectiveRun::Way CollectiveRun::choose_way() const {
  if (call_.header.kind == Collective::reduce_scatter) return Way::in_chunks;
  const size_t bytes = static_cast<size_t>(call_.header.shape.num_elements()) * size_of(call_.header.dtype);
  if (call_.header.kind != Collective::reduce || size_ == 1 || bytes <= kWhole) return Way::whole;
  return layout_->is_hierarchical() && bytes > kInChunks ? Way::in_lanes : Way::in_chunks;
}

CollectiveRun::Range CollectiveRun::range(int first, int num, int num_chunks) const {
  const int64_t count = call_.header.shape.num_elements();
  int64_t each = (count + num_chunks - 1) / num_chunks;
  if (call_.header.kind == Collective::reduce) {
    const int64_t step = kAlignment / std::min<int64_t>(kAlignment, static_cast<int64_t>(size_of(call_.header.dtype)));
    each = (each + step - 1) / step * step;
  }
  const int64_t begin = std::min(count, each * first);
  return {begin, std::min(count, begin + each * num) - begin};
}

CollectiveRun::Range CollectiveRun::chunk(int rank) const {
  if (way_ != Way::in_lanes) return range(rank, 1, size_);
  const int number = layout_->chunk(rank);
  return number < 0 ? Range{0, 0} : range(number, 1, layout_->num_chunks());
}

CollectiveRun::Range CollectiveRun::lane(int rank) const {
  if (layout_->chunk(rank) < 0) return {0, 0};
  return range(layout_->lane(rank) * layout_->num_hosts(), layout_->num_hosts(), layout_->num_chunks());
}

Tensor CollectiveRun::output_part(Range part) {
  std::lock_guard lock(mutex_);
  return finished_ ? Tensor() : elements_of(output_, part.begin, part.count);
}

void CollectiveRun::reduce(const std::vector<Contribution>& given) {
  const CollectiveHeader& header = call_.header;
  if (way_ == Way::in_lanes) return owns_lane() ? merge_lane(given) : void();
  const bool scatters = header.kind == Collective::reduce_scatter;
  const Range own = way_ == Way::in_chunks ? chunk(rank_) : Range{0, header.shape.num_elements()};
  Tensor result;
  if (scatters)
    result = Tensor(header.dtype, header.shape.with_dim(0, header.shape[0] / size_));
  else if (way_ == Way::whole)
    result = Tensor(header.dtype, header.shape);
  else if (result = output_part(own); !result.defined())
    return;  // It has failed meanwhile.
  std::vector<const void*> inputs;
  for (int rank = 0; rank < size_; ++rank) inputs.push_back(element(given[rank].value, rank == rank_ ? own.begin : 0));
  merge_all(inputs, result.raw(), own.count);
  if (scatters || way_ == Way::whole) return finish(std::nullopt, std::move(result));
  for (int i = 1; i < size_; ++i) send_((rank_ + i) % size_, Phase::result, rank_, nullptr, result);
  result.reset();
  piece_done();
}

void CollectiveRun::merge_all(const std::vector<const void*>& inputs, void* out, int64_t count) const {
  const CollectiveHeader& header = call_.header;
  const int64_t divisor = header.divides ? size_ : 0;
  if (!layout_->is_hierarchical()) return merge(header.dtype, header.merge, divisor, inputs, out, count);
  Tensor partial(header.dtype, Shape{count});
  for (int host = 0; host < layout_->num_hosts(); ++host) {
    std::vector<const void*> here;
    for (int rank : layout_->members(host)) here.push_back(inputs[rank]);
    merge(header.dtype, header.merge, 0, here, host == 0 ? out : partial.raw(), count);
    if (host == 0) continue;
    const void* both[] = {out, partial.raw()};
    merge(header.dtype, header.merge, host + 1 == layout_->num_hosts() ? divisor : 0, both, out, count);
  }
}

void CollectiveRun::merge_lane(const std::vector<Contribution>& given) {
  const CollectiveHeader& header = call_.header;
  const int own_host = layout_->host(rank_), num_hosts = layout_->num_hosts();
  const int first = layout_->lane(rank_) * num_hosts;
  const Range all = lane(rank_);
  // What other hosts need first; each member begins with another one.
  for (int i = 1; i <= num_hosts; ++i) {
    const int host = (own_host + i) % num_hosts, to = layout_->owner(first + host);
    const Range part = chunk(to);
    Tensor partial;
    if (layout_->members(own_host).size() == 1) {
      partial = elements_of(given[rank_].value, part.begin, part.count);
    } else {
      partial = Tensor(header.dtype, Shape{part.count});
      std::vector<const void*> inputs;
      for (int rank : layout_->members(own_host))
        inputs.push_back(element(given[rank].value, part.begin - (rank == rank_ ? 0 : all.begin)));
      merge(header.dtype, header.merge, 0, inputs, partial.raw(), part.count);
    }
    if (host == own_host)
      note_partial(host, std::move(partial));
    else
      send_(to, Phase::partial, rank_, nullptr, std::move(partial));
  }
}

void CollectiveRun::partly_merged(int source, Tensor value) {
  bool fits;
  {
    std::lock_guard lock(mutex_);
    if (finished_) return;
    fits = started_ && owns_lane() && source != rank_ && layout_->lane(source) == layout_->lane(rank_) &&
           !layout_->share_host(source, rank_) && !partials_[layout_->host(source)].defined() && value.defined() &&
           value.dtype() == output_.dtype() && value.num_elements() == chunk(rank_).count;
  }
  if (!fits) return fail_to_fit(source);
  note_partial(layout_->host(source), std::move(value));
}

void CollectiveRun::note_partial(int host, Tensor value) {
  {
    std::lock_guard lock(mutex_);
    if (finished_ || partials_[host].defined()) return;
    partials_[host] = std::move(value);
    if (--missing_partials_ > 0) return;
  }
  run_soon(0, [self = shared_from_this()] { self->merge_hosts(); });
}

void CollectiveRun::merge_hosts() {
  std::vector<Tensor> partials(layout_->num_hosts());
  const Range own = chunk(rank_);
  Tensor result = output_part(own);
  if (!result.defined()) return;
  {
    std::lock_guard lock(mutex_);
    partials.swap(partials_);
  }
  std::vector<const void*> inputs;
  for (const Tensor& each : partials) inputs.push_back(each.raw());
  const CollectiveHeader& header = call_.header;
  merge(header.dtype, header.merge, header.divides ? size_ : 0, inputs, result.raw(), own.count);
  send_on(Phase::result, rank_, nullptr, result);
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

void CollectiveRun::resulted(int origin, Tensor value) {
  bool fits;
  {
    std::lock_guard lock(mutex_);
    if (finished_) return;
    fits = started_ && output_.defined() && origin != rank_ && !placed_[origin] && value.defined() &&
           value.dtype() == output_.dtype() && value.num_elements() == chunk(origin).count;
    if (fits) placed_[origin] = true;
  }
  if (!fits) return fail_to_fit(origin);
  run_soon(0, [self = shared_from_this(), origin, value = std::move(value)] { self->place(origin, value); });
}

void CollectiveRun::fail_to_fit(int source) {
  fail_now(Error(Code::internal, cat("rank ", source, " of a collective group sent a result that does not fit")));
}

void CollectiveRun::place(int origin, const Tensor& value) {
  Tensor placed = output_part(chunk(origin));
  if (!placed.defined()) return;
  copy_bytes(placed.raw(), value.raw(), value.bytes());
  if (way_ == Way::in_lanes) send_on(Phase::result, origin, nullptr, placed);
  placed.reset();
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

}  // namespace thalweg::net
