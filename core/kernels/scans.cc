// Cumsum, Cumprod and CumulativeLogsumexp: running totals along one axis, forwards or backwards.
#include "compute/elementwise/elementwise.h"

namespace thalweg {
namespace {

struct RunningSum {
  template <typename C>
  static C start() {
    return C(0);
  }
  template <typename C>
  static C add(C a, C b) {
    return static_cast<C>(a + b);
  }
};
struct RunningProduct {
  template <typename C>
  static C start() {
    return C(1);
  }
  template <typename C>
  static C add(C a, C b) {
    return static_cast<C>(a * b);
  }
};
struct RunningLogSumExp {
  template <typename C>
  static C start() {
    return -std::numeric_limits<C>::infinity();
  }
  // log(exp(a) + exp(b)) from the larger of the two; NaN stays.
  template <typename C>
  static C add(C a, C b) {
    const C high = a > b ? a : b, low = a > b ? b : a;
    if (std::isinf(high) && high < 0) return std::isnan(low) ? low : high;
    if (std::isinf(high)) return std::isnan(low) ? low : high;
    return high + std::log1p(std::exp(low - high));
  }
};

// Scans so many rows side by side: each is a chain of additions that wait for each other.
template <typename Op, int kRows, typename T>
void scan_rows(const T* in, T* out, int64_t length, bool exclusive, bool reverse) {
  using C = Compute<T>;
  C totals[kRows];
  std::fill_n(totals, kRows, Op::template start<C>());
  for (int64_t k = 0; k < length; ++k) {
    const int64_t at = reverse ? length - 1 - k : k;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const C before = totals[r];
      totals[r] = Op::template add<C>(before, static_cast<C>(in[r * length + at]));
      out[r * length + at] = static_cast<T>(exclusive ? before : totals[r]);
    }
  }
}

template <typename Op, typename T>
void scan(const T* in, T* out, int64_t outer, int64_t length, int64_t inner, bool exclusive, bool reverse) {
  using C = Compute<T>;
  constexpr int64_t kTile = 256;
  const int64_t tiles = (inner + kTile - 1) / kTile;
  const int64_t per_unit = std::max<int64_t>(1, length * std::min(inner, kTile));
  parallel_for(outer * tiles, std::max<int64_t>(1, kElementGrain / per_unit), [=](int64_t begin, int64_t end) {
    if (inner == 1) {
      constexpr int kRows = 8;
      int64_t row = begin;
      for (; row + kRows <= end; row += kRows)
        scan_rows<Op, kRows>(in + row * length, out + row * length, length, exclusive, reverse);
      for (; row < end; ++row) scan_rows<Op, 1>(in + row * length, out + row * length, length, exclusive, reverse);
      return;
    }
    for (int64_t u = begin; u < end; ++u) {
      const int64_t first = u % tiles * kTile, width = std::min(kTile, inner - first);
      const int64_t base = u / tiles * length * inner + first;
      C totals[kTile];
      std::fill_n(totals, width, Op::template start<C>());
      for (int64_t k = 0; k < length; ++k) {
        const int64_t row = base + (reverse ? length - 1 - k : k) * inner;
        for (int64_t i = 0; i < width; ++i) {
          const C before = totals[i];
          totals[i] = Op::template add<C>(before, static_cast<C>(in[row + i]));
          out[row + i] = static_cast<T>(exclusive ? before : totals[i]);
        }
      }
    }
  });
}

// The same bits come out of unsigned arithmetic, which may overflow.
DType without_sign(DType dtype) {
  switch (dtype) {
    case DType::int8:
      return DType::uint8;
    case DType::int16:
      return DType::uint16;
    case DType::int32:
      return DType::uint32;
    case DType::int64:
      return DType::uint64;
    default:
      return dtype;
  }
}

template <typename Op, typename TypeList>
struct Scan : Kernel {
  explicit Scan(const Construction& c)
      : exclusive(c.attr<bool>("exclusive", false)), reverse(c.attr<bool>("reverse", false)) {}

  void compute(Context& ctx) override {
    const Tensor& input = ctx.input(0);
    const Tensor& axis_tensor = ctx.input(1);
    require(axis_tensor.rank() == 0, "ScanOp: axis must be a scalar, not ", axis_tensor.shape());
    const int64_t axis = to_int64(axis_tensor);
    const int rank = input.rank();
    require(axis >= -rank && axis < rank, "ScanOp: Expected scan axis in the range [", -rank, ", ", rank, "), but got ",
            axis);
    const int d = static_cast<int>(axis < 0 ? axis + rank : axis);
    Tensor& out = ctx.forward_or_allocate({0}, 0, input.shape());
    if (out.num_elements() == 0) return;
    dispatch(without_sign(input.dtype()), TypeList{}, [&]<typename T>() {
      scan<Op>(ctx.input(0).template flat<T>(), out.template flat<T>(), out.shape().product(0, d), out.dim(d),
               out.shape().product(d + 1, rank), exclusive, reverse);
    });
  }

  bool exclusive, reverse;
};

using Scanned = Join<Join<Floats, UnsignedInts>, Complexes>;

REGISTER(kernel("Cumsum").types("T", Numbers{}).make<Scan<RunningSum, Scanned>>());
REGISTER(kernel("Cumprod").types("T", Numbers{}).make<Scan<RunningProduct, Scanned>>());
REGISTER(kernel("CumulativeLogsumexp").types("T", Floats{}).make<Scan<RunningLogSumExp, Floats>>());

}  // namespace
}  // namespace thalweg
