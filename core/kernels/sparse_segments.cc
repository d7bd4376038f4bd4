// Sparse segment reductions: chosen rows of the data are added up by segment; and their gradients.
#include "compute/copies/elements.h"
#include "compute/elementwise/elementwise.h"

namespace thalweg {
namespace {

enum class Scale { none, mean, root };

struct Pairs {
  std::vector<int64_t> indices, ids;
};

// Reads indices and segment ids, which belong together in pairs.
Pairs read_pairs(Context& ctx) {
  const Tensor& indices = ctx.input(1);
  const Tensor& ids = ctx.input(2);
  require(indices.rank() == 1, "indices should be a vector, got shape ", indices.shape());
  require(ids.rank() == 1, "segment_ids should be a vector, got shape ", ids.shape());
  require(indices.dim(0) == ids.dim(0), "segment_ids and indices should have same size: ", ids.dim(0), " vs. ",
          indices.dim(0));
  return {to_int64s(indices), to_int64s(ids)};
}

void check_indices(const std::vector<int64_t>& indices, int64_t limit) {
  for (size_t i = 0; i < indices.size(); ++i)
    require(indices[i] >= 0 && indices[i] < limit, "Bad: indices[", i, "] == ", indices[i], " out of range [0, ", limit,
            ")");
}

// Adds up data[indices[i]] into out[ids[i]], and divides by the number of rows or its root.
template <typename T>
void add_segments(const T* from, const Pairs& pairs, int64_t inner, Scale scale, T* to) {
  using C = Compute<T>;
  const std::vector<int64_t>& ids = pairs.ids;
  std::vector<C> total(inner);
  for (size_t i = 0; i < ids.size();) {
    const size_t first = i;
    std::fill(total.begin(), total.end(), C(0));
    for (; i < ids.size() && ids[i] == ids[first]; ++i) {
      const T* row = from + pairs.indices[i] * inner;
      C* sum = total.data();
#pragma GCC ivdep
      for (int64_t k = 0; k < inner; ++k) sum[k] = static_cast<C>(sum[k] + static_cast<C>(row[k]));
    }
    T* target = to + ids[first] * inner;
    if (scale == Scale::none) {
      for (int64_t k = 0; k < inner; ++k) target[k] = static_cast<T>(total[k]);
    } else if constexpr (is_real_float<T>) {
      const double count = static_cast<double>(i - first);
      const C divisor = static_cast<C>(scale == Scale::mean ? count : std::sqrt(count));
      for (int64_t k = 0; k < inner; ++k) target[k] = static_cast<T>(total[k] / divisor);
    }
  }
}

void add_segments_of(Context& ctx, Scale scale, bool numbered) {
  const Tensor& data = ctx.input(0);
  require(data.rank() >= 1, "data must be at least rank 1, got shape ", data.shape());
  const Pairs pairs = read_pairs(ctx);
  const auto& ids = pairs.ids;
  require(ids.empty() || ids.back() < std::numeric_limits<int64_t>::max(), "the segment id ",
          ids.empty() ? 0 : ids.back(), " is out of range");
  int64_t segments = ids.empty() ? 0 : ids.back() + 1;
  if (numbered) {
    require(ctx.input(3).rank() == 0, "num_segments should be a scalar, not shape ", ctx.input(3).shape());
    const int64_t number = to_int64(ctx.input(3));
    require(number >= 0, "num_segments must not be negative, got ", number);
    require(ids.empty() || segments <= number, "segment ids must be < num_segments: ", segments - 1,
            " is out of range [0, ", number, ")");
    segments = number;
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    require(ids[i] >= 0, "segment ids must be >= 0, got ", ids[i], " at position ", i);
    require(i == 0 || ids[i] >= ids[i - 1], "segment ids are not increasing at position ", i);
  }
  check_indices(pairs.indices, data.dim(0));
  Tensor& out = ctx.allocate(0, data.shape().with_dim(0, segments));
  if (out.num_elements() == 0) return;
  zero_elements(out.dtype(), out.raw(), out.num_elements());
  // Sums of integers have the same bits whether they are signed or not.
  dispatch(unsigned_of(data.dtype()), Modular<Reals>::type{}, [&]<typename T>() {
    add_segments(data.flat<T>(), pairs, out.num_elements() / segments, scale, out.flat<T>());
  });
}

template <Scale scale, bool kNumbered>
void sparse_segment(Context& ctx) {
  add_segments_of(ctx, scale, kNumbered);
}

// out[indices[i]] += grad[ids[i]], scaled as the forward op scaled the segment.
void add_gradients(Context& ctx, Scale scale) {
  const Tensor& grad = ctx.input(0);
  require(grad.rank() >= 1, "grad must be at least rank 1, got shape ", grad.shape());
  const Pairs pairs = read_pairs(ctx);
  require(ctx.input(3).rank() == 0, "output_dim0 should be a scalar, not shape ", ctx.input(3).shape());
  const int64_t rows = to_int64(ctx.input(3)), segments = grad.dim(0);
  require(rows >= 0, "output_dim0 must not be negative, got ", rows);
  for (size_t i = 0; i < pairs.ids.size(); ++i)
    require(pairs.ids[i] >= 0 && pairs.ids[i] < segments, "Segment id ", pairs.ids[i], " out of range [0, ", segments,
            ")");
  check_indices(pairs.indices, rows);
  Tensor& out = ctx.allocate(0, grad.shape().with_dim(0, rows));
  if (out.num_elements() == 0) return;
  const int64_t inner = out.num_elements() / rows;
  std::vector<int64_t> counts(segments, 0);
  for (int64_t id : pairs.ids) ++counts[id];
  dispatch(grad.dtype(), Floats{}, [&]<typename T>() {
    using C = Compute<T>;
    std::vector<C> total(out.num_elements(), C(0));
    for (size_t i = 0; i < pairs.ids.size(); ++i) {
      const double count = static_cast<double>(counts[pairs.ids[i]]);
      const C divisor = static_cast<C>(scale == Scale::none ? 1.0 : scale == Scale::mean ? count : std::sqrt(count));
      const T* row = grad.flat<T>() + pairs.ids[i] * inner;
      C* target = total.data() + pairs.indices[i] * inner;
      for (int64_t k = 0; k < inner; ++k) target[k] += static_cast<C>(row[k]) / divisor;
    }
    std::copy(total.begin(), total.end(), out.flat<T>());
  });
}

template <Scale scale>
void sparse_segment_grad(Context& ctx) {
  add_gradients(ctx, scale);
}

REGISTER(kernel("SparseSegmentSum").types("T", Reals{}).function<sparse_segment<Scale::none, false>>());
REGISTER(kernel("SparseSegmentMean").types("T", Floats{}).function<sparse_segment<Scale::mean, false>>());
REGISTER(kernel("SparseSegmentSqrtN").types("T", Floats{}).function<sparse_segment<Scale::root, false>>());
REGISTER(kernel("SparseSegmentSumWithNumSegments").types("T", Reals{}).function<sparse_segment<Scale::none, true>>());
REGISTER(kernel("SparseSegmentMeanWithNumSegments").types("T", Floats{}).function<sparse_segment<Scale::mean, true>>());
REGISTER(
    kernel("SparseSegmentSqrtNWithNumSegments").types("T", Floats{}).function<sparse_segment<Scale::root, true>>());
REGISTER(kernel("SparseSegmentSumGrad").types("T", Floats{}).function<sparse_segment_grad<Scale::none>>());
REGISTER(kernel("SparseSegmentMeanGrad").types("T", Floats{}).function<sparse_segment_grad<Scale::mean>>());
REGISTER(kernel("SparseSegmentSqrtNGrad").types("T", Floats{}).function<sparse_segment_grad<Scale::root>>());

}  // namespace
}  // namespace thalweg
