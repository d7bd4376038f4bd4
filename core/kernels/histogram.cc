// Bincount, DenseBincount and HistogramFixedWidth: counting values.
#include "kernel/registry.h"

namespace thalweg {
namespace {

using Counted = Types<DType::int32, DType::int64, DType::float32, DType::float64>;

constexpr int64_t kFewBins = 1024;

// Counts each value of a row. Four tables in turn: equal values in a row would wait for each other.
template <typename T, typename I>
void count_few(const I* values, int64_t n, int64_t size, T* bins) {
  constexpr int kTables = 4;
  int32_t counts[kTables][kFewBins + 1] = {};  // The last one is of the values of `size` or more.
  constexpr int64_t kBlock = 256;
  int32_t places[kBlock];
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t some = std::min(kBlock, n - begin);
    for (int64_t i = 0; i < some; ++i)
      places[i] =
          static_cast<int32_t>(values[begin + i] < static_cast<I>(size) ? values[begin + i] : static_cast<I>(size));
    int64_t i = 0;
    for (; i + kTables <= some; i += kTables) {
      ++counts[0][places[i]];
      ++counts[1][places[i + 1]];
      ++counts[2][places[i + 2]];
      ++counts[3][places[i + 3]];
    }
    for (; i < some; ++i) ++counts[0][places[i]];
  }
  for (int64_t b = 0; b < size; ++b)
    bins[b] = static_cast<T>(int64_t{counts[0][b]} + counts[1][b] + counts[2][b] + counts[3][b]);
}

// Counts, or adds up the weights of, each value of a row; values of `size` or more are left out.
template <typename T, typename I>
void count_row(const I* values, int64_t n, const T* weights, int64_t size, bool binary, T* bins) {
  if (weights == nullptr && !binary && size <= kFewBins && n >= 4 * kFewBins &&
      n <= std::numeric_limits<int32_t>::max())
    return count_few(values, n, size, bins);
  for (int64_t i = 0; i < n; ++i) {
    if (values[i] >= size) continue;
    if (binary)
      bins[values[i]] = T(1);
    else
      bins[values[i]] += weights ? weights[i] : T(1);
  }
}

void bincount(Context& ctx, bool matrix, bool binary) {
  const Tensor& input = ctx.input(0);
  const Tensor& weights = ctx.input(2);
  require(ctx.input(1).num_elements() == 1, "size must be a scalar, got shape ", ctx.input(1).shape());
  const int64_t size = to_int64(ctx.input(1).reshaped(Shape{}));
  require(size >= 0, "size (", size, ") must be non-negative");
  require(weights.num_elements() == 0 || weights.shape() == input.shape(),
          "weights must have the shape of the values or no elements: ", weights.shape(), " vs. ", input.shape());
  require(!matrix || input.rank() <= 2, "expected values of rank 1 or 2, got shape ", input.shape());
  dispatch(input.dtype(), Indices{}, [&]<typename I>() {
    const I* values = input.flat<I>();
    I smallest = 0;
    for (int64_t i = 0, n = input.num_elements(); i < n; ++i) smallest = values[i] < smallest ? values[i] : smallest;
    require(smallest >= 0, "Input arr must be non-negative! Found ", smallest);
  });
  const bool rows = matrix && input.rank() == 2;
  const int64_t count = rows ? input.dim(0) : 1, length = rows ? input.dim(1) : input.num_elements();
  Tensor& out = ctx.allocate(0, rows ? Shape{count, size} : Shape{size});
  dispatch(out.dtype(), Counted{}, [&]<typename T>() {
    T* bins = out.flat<T>();
    std::fill_n(bins, out.num_elements(), T(0));
    const T* weight = weights.num_elements() > 0 ? weights.flat<T>() : nullptr;
    dispatch(input.dtype(), Indices{}, [&]<typename I>() {
      for (int64_t r = 0; r < count; ++r)
        count_row(input.flat<I>() + r * length, length, weight ? weight + r * length : nullptr, size, binary,
                  bins + r * size);
    });
  });
}

void flat_bincount(Context& ctx) { bincount(ctx, false, false); }

struct DenseBincount : Kernel {
  explicit DenseBincount(const Construction& c) : binary(c.attr<bool>("binary_output", false)) {}
  void compute(Context& ctx) override { bincount(ctx, true, binary); }
  bool binary;
};

void histogram_fixed_width(Context& ctx) {
  const Tensor& values = ctx.input(0);
  const Tensor& range = ctx.input(1);
  const Tensor& nbins = ctx.input(2);
  require(range.rank() == 1 && range.dim(0) == 2, "value_range should be a vector of 2 elements, got shape ",
          range.shape());
  require(nbins.rank() == 0, "nbins should be a scalar, got shape ", nbins.shape());
  const int64_t bins = to_int64(nbins);
  require(bins > 0, "nbins should be a positive number, but got '", bins, "'");
  Tensor counts(DType::int64, Shape{bins});
  int64_t* out = counts.flat<int64_t>();
  std::fill_n(out, bins, int64_t{0});
  dispatch(values.dtype(), Counted{}, [&]<typename T>() {
    const double low = static_cast<double>(range.flat<T>()[0]), high = static_cast<double>(range.flat<T>()[1]);
    require(low < high, "value_range should satisfy value_range[0] < value_range[1], but got '[", low, ", ", high,
            "]'");
    require(std::isfinite(low) && std::isfinite(high), "value_range must be finite, got [", low, ", ", high, "]");
    const double step = (high - low) / static_cast<double>(bins);
    const T* p = values.flat<T>();
    for (int64_t i = 0; i < values.num_elements(); ++i) {
      const double x = static_cast<double>(p[i]);
      require(!std::isnan(x), "values must not contain NaN");
      // Values outside of the range count for the bin at that end.
      const double bin = std::floor((x - low) / step);
      ++out[static_cast<int64_t>(std::clamp(bin, 0.0, static_cast<double>(bins - 1)))];
    }
  });
  if (ctx.output_dtype(0) == DType::int64) {
    ctx.set_output(0, std::move(counts));
    return;
  }
  Tensor& narrow = ctx.allocate(0, Shape{bins});
  std::copy_n(out, bins, narrow.flat<int32_t>());
}

REGISTER(kernel("Bincount").types("T", Counted{}).function<flat_bincount>());
REGISTER(kernel("DenseBincount").types("T", Counted{}).make<DenseBincount>());
REGISTER(kernel("HistogramFixedWidth").types("T", Counted{}).function<histogram_fixed_width>());

}  // namespace
}  // namespace thalweg
