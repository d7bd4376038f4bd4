// ArgMax and ArgMin: the index of the first extreme along one axis.
#include <algorithm>

#include "compute/reduction/reduction.h"
#include "kernel/registry.h"
#include "thread/parallel.h"

namespace thalweg {
namespace {

template <bool kMax, typename T>
inline bool beats(T a, T b) {
  return kMax ? a > b : a < b;
}

template <bool kMax, typename C>
constexpr C worst() {
  using Limits = std::numeric_limits<C>;
  if constexpr (Limits::has_infinity)
    return kMax ? -Limits::infinity() : Limits::infinity();
  else
    return kMax ? Limits::lowest() : Limits::max();
}

// The type that elements are compared in.
template <typename T>
using Compared =
    std::conditional_t<is_reduced_float<T>, float, std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>>;

// The elements as they are compared: a copy in `buffer` if that takes a conversion.
template <typename T>
inline const Compared<T>* compared_row(const T* from, Compared<T>* buffer, int64_t n) {
  if constexpr (std::is_same_v<T, bool>)
    return reinterpret_cast<const uint8_t*>(from);
  else
    return widened_row(from, buffer, n);
}

// The extreme of n elements that are no NaN.
template <bool kMax, typename C>
C extreme_of(const C* p, int64_t n) {
  using Vector = typename VectorOf<C>::type;
  constexpr int kLanes = VectorOf<C>::kLanes, kVectors = 4;
  C best = worst<kMax, C>();
  int64_t i = 0;
  if (n >= kVectors * kLanes) {
    Vector lanes[kVectors];
    for (Vector& lane : lanes) lane = Vector{} + best;
    for (; i + kVectors * kLanes <= n; i += kVectors * kLanes)
      for (int v = 0; v < kVectors; ++v) {
        Vector x;
        std::memcpy(&x, p + i + v * kLanes, sizeof(x));
        lanes[v] = kMax ? (x > lanes[v] ? x : lanes[v]) : (x < lanes[v] ? x : lanes[v]);
      }
    for (const Vector& lane : lanes)
      for (int l = 0; l < kLanes; ++l) best = beats<kMax, C>(lane[l], best) ? lane[l] : best;
  }
  for (; i < n; ++i) best = beats<kMax, C>(p[i], best) ? p[i] : best;
  return best;
}

// The index of the first extreme of a row so short that a search in blocks would not pay.
constexpr int64_t kShort = 64;
template <bool kMax, typename T>
[[gnu::always_inline]] inline int64_t arg_of_short_row(const T* row, int64_t length) {
  using C = Compared<T>;
  C value = worst<kMax, C>();
  int64_t best = 0;
  for (int64_t k = 0; k < length; ++k)
    if (const C x = static_cast<C>(row[k]); beats<kMax, C>(x, value)) {
      value = x;
      best = k;
    }
  return best;
}

// The same for `rows` rows that follow each other, with a row in each lane of a vector: nothing branches.
template <bool kMax, typename T>
void arg_of_short_rows(const T* from, int64_t rows, int64_t length, int64_t* out) {
  using C = Compared<T>;
  using Vector = typename VectorOf<C>::type;
  using Place = decltype(Vector{} > Vector{});
  constexpr int kLanes = VectorOf<C>::kLanes;
  C buffer[is_reduced_float<T> ? kLanes * kShort : 1];
  int64_t r = 0;
  for (; r + kLanes <= rows; r += kLanes) {
    const C* p = compared_row(from + r * length, buffer, kLanes * length);
    Vector value = Vector{} + worst<kMax, C>();
    Place best{};
    for (int64_t k = 0; k < length; ++k) {
      C lanes[kLanes];
#pragma GCC unroll 8
      for (int l = 0; l < kLanes; ++l) lanes[l] = p[l * length + k];
      Vector x;
      std::memcpy(&x, lanes, sizeof(x));
      const Place better = kMax ? x > value : x < value;
      value = better ? x : value;
      best = better ? Place{} + static_cast<std::remove_reference_t<decltype(best[0])>>(k) : best;
    }
    for (int l = 0; l < kLanes; ++l) out[r + l] = best[l];
  }
  for (; r < rows; ++r) out[r] = arg_of_short_row<kMax>(from + r * length, length);
}

// The index of the first extreme of a row: a block is searched if its extreme beats those before.
template <bool kMax, typename T>
int64_t arg_of_row(const T* row, int64_t length) {
  using C = Compared<T>;
  constexpr int64_t kBlock = 1024;
  C buffer[kBlock];
  C value = worst<kMax, C>();
  int64_t best = 0;
  for (int64_t begin = 0; begin < length; begin += kBlock) {
    const int64_t n = std::min(kBlock, length - begin);
    const C* p = compared_row(row + begin, buffer, n);
    const C extreme = extreme_of<kMax>(p, n);
    if (!beats<kMax, C>(extreme, value)) continue;
    value = extreme;
    best = begin + (std::find(p, p + n, extreme) - p);
  }
  return best;
}

constexpr int64_t kTile = 256;

// Extremes of up to kTile columns, and in which rows they are first; NaN never beats anything.
template <bool kMax, typename T, typename Place>
struct Columns {
  using C = Compared<T>;
  C values[kTile];
  Place places[kTile];

  explicit Columns(int64_t width) {
    std::fill_n(values, width, worst<kMax, C>());
    std::fill_n(places, width, Place{0});
  }
  void add(const T* from, int64_t width, Place place) {
    C buffer[is_reduced_float<T> ? kTile : 1];
    const C* row = compared_row(from, buffer, width);
    for (int64_t i = 0; i < width; ++i) {
      const bool better = beats<kMax, C>(row[i], values[i]);
      values[i] = better ? row[i] : values[i];
      places[i] = better ? place : places[i];
    }
  }
};

// out[i] = index of the extreme of column i of a matrix, for `width` of its `stride` columns.
template <bool kMax, typename T, typename Place>
void arg_of_columns(const T* base, int64_t length, int64_t stride, int64_t width, int64_t* out) {
  // So many rows of a narrow matrix count as one: they fill the vectors.
  const int64_t side = width == stride && width <= 32 && length >= 128 ? 64 / width : 1;
  const int64_t groups = length / side;
  Columns<kMax, T, Place> columns(side * width);
  for (int64_t k = 0; k < groups; ++k) columns.add(base + k * side * stride, side * width, static_cast<Place>(k));
  using C = Compared<T>;
  for (int64_t i = 0; i < width; ++i) {
    C value = columns.values[i];
    int64_t best = columns.places[i] * side;
    for (int64_t s = 1; s < side; ++s) {
      const C other = columns.values[s * width + i];
      const int64_t at = columns.places[s * width + i] * side + s;
      // An extreme that is the worst value was not found, but there from the start.
      const bool earlier = other == value && beats<kMax, C>(other, worst<kMax, C>()) && at < best;
      if (!beats<kMax, C>(other, value) && !earlier) continue;
      value = other;
      best = at;
    }
    for (int64_t k = groups * side; k < length; ++k) {
      const C x = static_cast<C>(base[k * stride + i]);
      if (!beats<kMax, C>(x, value)) continue;
      value = x;
      best = k;
    }
    out[i] = best;
  }
}

// out[o, i] = index of the extreme of in[o, :, i]. A NaN never beats anything, as in TensorFlow.
template <bool kMax, typename T>
void arg_extreme(const T* in, int64_t outer, int64_t length, int64_t inner, int64_t* out) {
  constexpr int64_t kShortInLanes = 16;
  if (inner == 1 && length <= kShortInLanes)
    return parallel_for(outer, 32 * 1024 / length, [=](int64_t begin, int64_t end) {
      arg_of_short_rows<kMax>(in + begin * length, end - begin, length, out + begin);
    });
  const int64_t tiles = (inner + kTile - 1) / kTile;
  const int64_t grain = std::max<int64_t>(1, 32 * 1024 / std::max<int64_t>(1, length * std::min(inner, kTile)));
  parallel_for(outer * tiles, grain, [=](int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; ++u) {
      const int64_t o = u / tiles, first = u % tiles * kTile, width = std::min(kTile, inner - first);
      const T* base = in + o * length * inner + first;
      int64_t* to = out + o * inner + first;
      if (inner == 1)
        *to = length < kShort ? arg_of_short_row<kMax>(base, length) : arg_of_row<kMax>(base, length);
      else if (sizeof(Compared<T>) < 8 && length <= std::numeric_limits<int32_t>::max())
        arg_of_columns<kMax, T, int32_t>(base, length, inner, width, to);
      else
        arg_of_columns<kMax, T, int64_t>(base, length, inner, width, to);
    }
  });
}

using Comparable = Join<Reals, Types<DType::boolean>>;
using IndexTypes = Types<DType::int64, DType::int32, DType::int16, DType::uint16>;

template <bool kMax>
void arg_kernel(Context& ctx) {
  const Tensor& input = ctx.input(0);
  const Tensor& dimension = ctx.input(1);
  require(dimension.num_elements() == 1 && dimension.rank() <= 1,
          "dim must be a scalar, but received tensor of shape: ", dimension.shape());
  const int64_t axis = dimension.dtype() == DType::int16 ? *dimension.flat<int16_t>() : to_int64s(dimension)[0];
  const int rank = input.rank();
  require(axis >= -rank && axis < rank, "Expected dimension in the range [", -rank, ", ", rank, "), but got ", axis);
  const int d = static_cast<int>(axis < 0 ? axis + rank : axis);
  const int64_t length = input.dim(d);
  require(length > 0, "Reduction axis ", axis, " is empty in shape ", input.shape());
  Tensor& out = ctx.allocate(0, input.shape().removed(d));
  if (out.num_elements() == 0) return;
  const int64_t outer = input.shape().product(0, d), inner = input.shape().product(d + 1, rank);
  Tensor wide = out.dtype() == DType::int64 ? out : Tensor(DType::int64, out.shape());
  dispatch(input.dtype(), Comparable{}, [&]<typename T>() {
    arg_extreme<kMax>(input.template flat<T>(), outer, length, inner, wide.template flat<int64_t>());
  });
  if (out.dtype() == DType::int64) return;
  dispatch(out.dtype(), IndexTypes{}, [&]<typename Index>() {
    if constexpr (!std::is_same_v<Index, int64_t>) {
      require(length - 1 <= std::numeric_limits<Index>::max(), "an axis of size ", length,
              " has indices that do not fit into ", out.dtype());
      std::copy_n(wide.template flat<int64_t>(), out.num_elements(), out.template flat<Index>());
    }
  });
}

REGISTER(kernel("ArgMax").types("T", Comparable{}).function<arg_kernel<true>>());
REGISTER(kernel("ArgMin").types("T", Comparable{}).function<arg_kernel<false>>());

}  // namespace
}  // namespace thalweg
