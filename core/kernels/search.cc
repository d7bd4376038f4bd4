// Finding elements: the places of those that are not zero, and insertion points in sorted rows.
#include <algorithm>

#include "compute/elementwise/elementwise.h"
#include "kernel/registry.h"
#include "thread/parallel.h"

namespace thalweg {
namespace {

template <typename T>
inline bool is_set(const T& x) {
  if constexpr (is_reduced_float<T>)
    return static_cast<float>(x) != 0.0f;
  else
    return x != T(0);
}
template <typename T>
inline int32_t count_set(const T* x, int64_t n) {
  int32_t count = 0;
  for (int64_t i = 0; i < n; ++i) count += is_set(x[i]);
  return count;
}

// Calls write(i, set) up to the last element that is set. What it writes for others is overwritten by the next call:
// there is no branch that cannot be foreseen. Stretches without any are skipped.
template <typename T, typename Write>
inline void for_each_set(const T* x, int64_t n, const Write& write) {
  constexpr int64_t kStretch = 64;
  for (int64_t begin = 0; begin < n; begin += kStretch) {
    int32_t left = count_set(x + begin, std::min(kStretch, n - begin));
    for (int64_t i = begin; left > 0; ++i) {
      const bool set = is_set(x[i]);
      write(i, set);
      left -= set;
    }
  }
}

// The coordinates of every element that is not zero, in row-major order.
void where(Context& ctx) {
  const Tensor& in = ctx.input(0);
  const DType dtype = in.dtype() == DType::boolean ? DType::uint8 : unsigned_of(in.dtype());
  dispatch(dtype, Modular<Numbers>::type{}, [&]<typename T>() {
    const T* x = in.flat<T>();
    const int64_t n = in.num_elements();
    const int rank = in.rank();
    // Blocks of whole rows, so many elements each; where the results of each begin.
    const int64_t inner = rank == 0 ? 1 : in.dim(rank - 1), rows = inner == 0 ? 0 : n / inner;
    const int64_t cut = rank == 1 ? 1 : inner, units = n == 0 ? 0 : n / cut;
    const int64_t block = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, cut));
    const int64_t blocks = (units + block - 1) / block;
    std::vector<int64_t> starts(blocks + 1, 0);
    parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        const int64_t first = b * block * cut, last = std::min(n, first + block * cut);
        for (int64_t i = first; i < last; i += int64_t{1} << 20)
          starts[b + 1] += count_set(x + i, std::min(last - i, int64_t{1} << 20));
      }
    });
    std::partial_sum(starts.begin(), starts.end(), starts.begin());
    int64_t* const out = ctx.allocate(0, Shape{starts[blocks], rank}).flat<int64_t>();
    if (rank == 0) return;
    parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        int64_t* to = out + starts[b] * rank;
        if (rank == 1) {
          const int64_t first = b * block;
          for_each_set(x + first, std::min(n - first, block), [&](int64_t i, bool set) {
            *to = first + i;
            to += set;
          });
          continue;
        }
        std::vector<int64_t> at(rank, 0);  // the coordinates of the row
        for (int64_t d = rank - 2, left = b * block; d >= 0; --d) {
          at[d] = left % in.dim(d);
          left /= in.dim(d);
        }
        for (int64_t row = b * block; row < std::min(rows, (b + 1) * block); ++row) {
          for_each_set(x + row * inner, inner, [&](int64_t i, bool set) {
            to[0] = at[0];
            for (int d = 1; d < rank - 1; ++d) to[d] = at[d];
            to[rank - 1] = i;
            to += set ? rank : 0;
          });
          for (int d = rank - 2; d >= 0 && ++at[d] == in.dim(d) && d > 0; --d) at[d] = 0;
        }
      }
    });
  });
}
// Which of the intervals between sorted boundaries each element lies in; a boundary belongs to the one above it.
struct Bucketize : Kernel {
  explicit Bucketize(const Construction& c) {
    for (double b : c.attr<std::vector<double>>("boundaries")) boundaries.push_back(static_cast<float>(b));
    require(std::is_sorted(boundaries.begin(), boundaries.end()), "Expected sorted boundaries");
  }
  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    int32_t* out = ctx.allocate(0, in.shape()).flat<int32_t>();
    dispatch(in.dtype(), Join<WideFloats, Indices>{}, [&]<typename T>() {
      const T* x = in.flat<T>();
      parallel_for(in.num_elements(), 16384, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          out[i] =
              static_cast<int32_t>(std::upper_bound(boundaries.begin(), boundaries.end(), x[i]) - boundaries.begin());
      });
    });
  }
  std::vector<float> boundaries;
};

REGISTER(kernel("Bucketize").types("T", Join<WideFloats, Indices>{}).make<Bucketize>());
REGISTER(kernel("Where").types("T", Join<NumbersAndBool, Quantized>{}).function<where>());

// The order of NumPy: NaN comes behind every number.
struct Before {
  template <typename T>
  bool operator()(const T& a, const T& b) const {
    if constexpr (is_real_float<T>)
      return static_cast<Wide<T>>(a) < static_cast<Wide<T>>(b) || (b != b && a == a);
    else
      return a < b;
  }
  template <typename T>
  using Wide = std::conditional_t<is_reduced_float<T>, float, T>;
};

// For each value, the first position of its row that is not smaller, or (upper) that is larger.
void find_bounds(Context& ctx, bool upper) {
  const Tensor& sorted = ctx.input(0);
  const Tensor& values = ctx.input(1);
  require(sorted.rank() == 2, "sorted_inputs must be a matrix, got shape ", sorted.shape());
  require(values.rank() == 2, "values must be a matrix, got shape ", values.shape());
  require(sorted.dim(0) == values.dim(0), "the leading dimensions must agree: sorted_inputs has shape ", sorted.shape(),
          ", values ", values.shape());
  const int64_t width = sorted.dim(1), per_row = values.dim(1), n = values.num_elements();
  require(ctx.output_dtype(0) == DType::int64 || width <= std::numeric_limits<int32_t>::max(),
          "positions in rows of length ", width, " do not fit int32");
  Tensor& out = ctx.allocate(0, values.shape());
  const bool narrow = out.dtype() == DType::int32;
  Tensor positions = narrow ? Tensor(DType::int64, values.shape()) : out;
  int64_t* to = positions.flat<int64_t>();
  dispatch(sorted.dtype(), Join<Reals, Types<DType::string>>{}, [&]<typename T>() {
    const T* rows = sorted.flat<T>();
    const T* wanted = values.flat<T>();
    parallel_for(n, 2048, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T* row = rows + i / per_row * width;
        const T* found = upper ? std::upper_bound(row, row + width, wanted[i], Before{})
                               : std::lower_bound(row, row + width, wanted[i], Before{});
        to[i] = found - row;
      }
    });
  });
  if (narrow) std::copy_n(to, n, out.flat<int32_t>());
}

template <bool kUpper>
void search_sorted(Context& ctx) {
  find_bounds(ctx, kUpper);
}
REGISTER(kernel("LowerBound").types("T", Join<Reals, Types<DType::string>>{}).function<search_sorted<false>>());
REGISTER(kernel("UpperBound").types("T", Join<Reals, Types<DType::string>>{}).function<search_sorted<true>>());

}  // namespace
}  // namespace thalweg
