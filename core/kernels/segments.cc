// Segment reductions: rows of the data that carry the same id are combined into one row of the result.
#include "compute/elementwise/elementwise.h"

namespace thalweg {
namespace {

enum class Combine { sum, mean, product, minimum, maximum };

template <Combine kCombine, typename C>
C initial() {
  if constexpr (kCombine == Combine::product)
    return C(1);
  else if constexpr (kCombine == Combine::maximum)
    return std::numeric_limits<C>::lowest();
  else if constexpr (kCombine == Combine::minimum)
    return std::numeric_limits<C>::max();
  else
    return C(0);
}

template <Combine kCombine, typename C>
C combined(C a, C b) {
  if constexpr (kCombine == Combine::product)
    return static_cast<C>(a * b);
  else if constexpr (kCombine == Combine::maximum)
    return a > b ? a : b;
  else if constexpr (kCombine == Combine::minimum)
    return a < b ? a : b;
  else
    return static_cast<C>(a + b);
}

// Combines data[row] into totals[ids[row]]; negative ids are left out. Threads divide the columns among themselves.
template <Combine kCombine, typename T>
void combine_rows(const T* data, const std::vector<int64_t>& ids, int64_t inner, int64_t segments, Compute<T>* totals) {
  using C = Compute<T>;
  const int64_t rows = static_cast<int64_t>(ids.size());
  const int64_t per_column = std::max<int64_t>(1, std::max(rows, segments));
  parallel_for(inner, std::max<int64_t>(16, kElementGrain / per_column), [&](int64_t begin, int64_t end) {
    for (int64_t s = 0; s < segments; ++s)
      std::fill(totals + s * inner + begin, totals + s * inner + end, initial<kCombine, C>());
    for (int64_t row = 0; row < rows; ++row) {
      if (ids[row] < 0) continue;
      const T* from = data + row * inner;
      C* to = totals + ids[row] * inner;
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i) to[i] = combined<kCombine, C>(to[i], static_cast<C>(from[i]));
    }
  });
}

// As above into `out`; sorted reductions turn empty segments of extremes into zeros, and divide means.
template <Combine kCombine, typename T>
void reduce_segments(const T* data, const std::vector<int64_t>& ids, int64_t inner, int64_t segments, bool sorted,
                     T* out) {
  using C = Compute<T>;
  std::vector<C> wide;
  C* totals;
  if constexpr (std::is_same_v<C, T>) {
    totals = out;
  } else {
    wide.resize(segments * inner);
    totals = wide.data();
  }
  combine_rows<kCombine, T>(data, ids, inner, segments, totals);
  if (sorted && kCombine != Combine::sum && kCombine != Combine::product) {
    std::vector<int64_t> counts(segments, 0);
    for (int64_t id : ids) ++counts[id];
    for (int64_t s = 0; s < segments; ++s)
      for (int64_t i = 0; i < inner; ++i) {
        C& total = totals[s * inner + i];
        if (counts[s] == 0)
          total = C(0);
        else if constexpr (kCombine == Combine::mean)
          total = static_cast<C>(total / static_cast<C>(counts[s]));
      }
  }
  if constexpr (!std::is_same_v<C, T>) std::copy_n(totals, segments * inner, out);
}

template <Combine kCombine, typename TypeList>
void segment_reduction(Context& ctx) {
  const Tensor& data = ctx.input(0);
  const Tensor& id_tensor = ctx.input(1);
  require(data.rank() >= 1, "input must be at least rank 1, got shape ", data.shape());
  require(id_tensor.rank() == 1, "segment_ids should be a vector, got shape ", id_tensor.shape());
  require(id_tensor.dim(0) == data.dim(0), "segment_ids should be the same size as dimension 0 of input. Expected ",
          data.dim(0), " got ", id_tensor.dim(0));
  const std::vector<int64_t> ids = to_int64s(id_tensor);
  for (size_t i = 0; i < ids.size(); ++i) {
    require(ids[i] >= 0, "segment ids must be >= 0, got ", ids[i], " at position ", i);
    require(i == 0 || ids[i] >= ids[i - 1], "segment ids are not increasing: ", ids[i], " follows ",
            ids[i == 0 ? 0 : i - 1], " at position ", i);
  }
  const int64_t segments = ids.empty() ? 0 : ids.back() + 1;
  Tensor& out = ctx.allocate(0, data.shape().with_dim(0, segments));
  if (out.num_elements() == 0) return;
  dispatch(data.dtype(), TypeList{}, [&]<typename T>() {
    reduce_segments<kCombine>(data.flat<T>(), ids, out.num_elements() / segments, segments, true, out.flat<T>());
  });
}

template <Combine kCombine, typename TypeList>
void unsorted_segment_reduction(Context& ctx) {
  const Tensor& data = ctx.input(0);
  const Tensor& id_tensor = ctx.input(1);
  const Tensor& number = ctx.input(2);
  require(number.rank() == 0, "num_segments should be a scalar, not shape ", number.shape());
  const int64_t segments = to_int64(number);
  require(segments >= 0, "Input num_segments == ", segments, " must not be negative.");
  const int prefix = id_tensor.rank();
  bool fits = prefix <= data.rank();
  for (int d = 0; fits && d < prefix; ++d) fits = id_tensor.dim(d) == data.dim(d);
  require(fits, "data.shape = ", data.shape(), " does not start with segment_ids.shape = ", id_tensor.shape());
  const std::vector<int64_t> ids = to_int64s(id_tensor);
  for (size_t i = 0; i < ids.size(); ++i)
    require(ids[i] < segments, "segment_ids[", i, "] = ", ids[i], " is out of range [0, ", segments, ")");
  std::vector<int64_t> dims = {segments};
  dims.insert(dims.end(), data.shape().begin() + prefix, data.shape().end());
  Tensor& out = ctx.allocate(0, Shape(dims));
  if (out.num_elements() == 0) return;
  dispatch(data.dtype(), TypeList{}, [&]<typename T>() {
    reduce_segments<kCombine>(data.flat<T>(), ids, out.num_elements() / segments, segments, false, out.flat<T>());
  });
}

REGISTER(kernel("SegmentSum").types("T", Numbers{}).function<segment_reduction<Combine::sum, Numbers>>());
REGISTER(kernel("SegmentMean").types("T", Numbers{}).function<segment_reduction<Combine::mean, Numbers>>());
REGISTER(kernel("SegmentProd").types("T", Numbers{}).function<segment_reduction<Combine::product, Numbers>>());
REGISTER(kernel("SegmentMin").types("T", Reals{}).function<segment_reduction<Combine::minimum, Reals>>());
REGISTER(kernel("SegmentMax").types("T", Reals{}).function<segment_reduction<Combine::maximum, Reals>>());
REGISTER(
    kernel("UnsortedSegmentSum").types("T", Numbers{}).function<unsorted_segment_reduction<Combine::sum, Numbers>>());
REGISTER(kernel("UnsortedSegmentProd")
             .types("T", Numbers{})
             .function<unsorted_segment_reduction<Combine::product, Numbers>>());
REGISTER(
    kernel("UnsortedSegmentMin").types("T", Reals{}).function<unsorted_segment_reduction<Combine::minimum, Reals>>());
REGISTER(
    kernel("UnsortedSegmentMax").types("T", Reals{}).function<unsorted_segment_reduction<Combine::maximum, Reals>>());

}  // namespace
}  // namespace thalweg
