// Fractional pooling: regions of random sizes cover the image (Graham, "Fractional max-pooling", 2014).
//
// A sequence holds the first row (or column) of each region, and the end of the last. Overlapping regions also take in
// the first row of the next one.
#include "compute/elementwise/elementwise.h"
#include "compute/random/random_state.h"
#include "random/distributions.h"

namespace thalweg {
namespace {

using Elements = Types<DType::float32, DType::float64, DType::int32, DType::int64>;
using Sequence = std::vector<int64_t>;

// Sizes of `out` regions that cover `in` rows; sizes differ by at most one.
Sequence random_sizes(int64_t in, int64_t out, Philox& generator) {
  Sequence sizes(out, in / out);
  for (int64_t i = 0; i < in % out; ++i) ++sizes[i];
  PhiloxWords words(generator);
  generator.skip((out + 3) / 4);
  for (int64_t i = 0; i + 1 < out; ++i)
    std::swap(sizes[i], sizes[i + static_cast<int64_t>(words() % static_cast<uint32_t>(out - i))]);
  return sizes;
}

// The same from a single random number u: region i begins at ceil(alpha (i + u)), with alpha = in / out.
Sequence pseudo_random_sizes(int64_t in, int64_t out, Philox& generator) {
  const double alpha = static_cast<double>(in) / static_cast<double>(out);
  const auto k = static_cast<double>(in / out);
  // u is limited so that the first region is not larger than k + 1, and the last not smaller than k.
  const double first = (k + 2) / alpha - 1;
  const double last = (static_cast<double>(in) + 1 - k) / alpha - static_cast<double>(out - 1);
  PhiloxWords words(generator);
  generator.skip(1);
  const uint32_t high = words(), low = words();
  const double u = uniform_double(high, low) * std::min(first, last);
  Sequence starts(out + 1);
  starts[0] = 1;
  starts[out] = in + 1;
  for (int64_t i = 1; i < out; ++i) starts[i] = static_cast<int64_t>(std::ceil(alpha * (static_cast<double>(i) + u)));
  Sequence sizes(out);
  for (int64_t i = 0; i < out; ++i) sizes[i] = starts[i + 1] - starts[i];
  return sizes;
}

Sequence make_sequence(int64_t in, int64_t out, Philox& generator, bool pseudo_random) {
  Sequence sizes(out, in / out);
  if (in % out != 0) sizes = pseudo_random ? pseudo_random_sizes(in, out, generator) : random_sizes(in, out, generator);
  Sequence starts(out + 1);
  for (int64_t i = 0; i < out; ++i) starts[i + 1] = starts[i] + sizes[i];
  return starts;
}

Tensor& output_sequence(Context& ctx, int i, const Sequence& sequence) {
  Tensor& out = ctx.allocate(i, Shape{static_cast<int64_t>(sequence.size())});
  std::copy(sequence.begin(), sequence.end(), out.flat<int64_t>());
  return out;
}

// A sequence that came as an input: `out` regions that lie within `in` rows.
Sequence checked_sequence(const Tensor& t, int64_t in, int64_t out, const char* what) {
  require(t.rank() == 1 && t.dim(0) == out + 1, what, " must be a vector of ", out + 1, " elements, got shape ",
          t.shape());
  Sequence sequence = to_int64s(t);
  for (int64_t i = 0; i < out; ++i)
    require(sequence[i] >= 0 && sequence[i] < sequence[i + 1] && sequence[i + 1] <= in, what, " must grow within [0, ",
            in, "], got ", sequence[i], " before ", sequence[i + 1]);
  return sequence;
}

struct Regions {
  Shape in, out;
  Sequence rows, columns;
  bool overlapping;

  // Calls body(first element of the output, rows [a, b), columns [c, d), image) for each region.
  template <typename Body>
  void for_each(const Body& body) const {
    const int64_t channels = out[3], extra = overlapping ? 1 : 0;
    for (int64_t n = 0; n < out[0]; ++n)
      for (int64_t i = 0; i < out[1]; ++i)
        for (int64_t j = 0; j < out[2]; ++j)
          body(((n * out[1] + i) * out[2] + j) * channels, rows[i], std::min(rows[i + 1] + extra, in[1]), columns[j],
               std::min(columns[j + 1] + extra, in[2]), n);
  }
  // Calls visit(first element of the input) for each pixel of a region.
  template <typename Visit>
  void for_pixels(int64_t n, int64_t a, int64_t b, int64_t c, int64_t d, const Visit& visit) const {
    for (int64_t y = a; y < b; ++y)
      for (int64_t x = c; x < d; ++x) visit(((n * in[1] + y) * in[2] + x) * in[3]);
  }
};

template <bool average>
struct FractionalPool : Kernel {
  explicit FractionalPool(const Construction& c)
      : ratio(c.attr<std::vector<double>>("pooling_ratio")),
        pseudo_random(c.attr<bool>("pseudo_random", false)),
        overlapping(c.attr<bool>("overlapping", false)),
        deterministic(c.attr<bool>("deterministic", false)),
        state(c) {
    require(ratio.size() == 4, "pooling_ratio must hold 4 numbers, got ", ratio.size());
    for (double r : ratio) require(r >= 1 && r < 1e9, "pooling_ratio cannot be smaller than 1, got: ", r);
    if (ratio[0] != 1 || ratio[3] != 1)
      fail(Code::unimplemented, "Fractional pooling is not yet supported on the batch nor channel dimension.");
    require(deterministic || (c.attr<int64_t>("seed", 0) == 0 && c.attr<int64_t>("seed2", 0) == 0),
            "Both seed and seed2 should be 0 if deterministic is false.");
    start = state.start();
  }
  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    require(in.rank() == 4, "tensor_in must be 4-dimensional, got shape ", in.shape());
    int64_t sizes[2];
    for (int d : {1, 2}) {
      sizes[d - 1] = static_cast<int64_t>(std::floor(static_cast<double>(in.dim(d)) / ratio[d]));
      require(sizes[d - 1] > 0, "an input of shape ", in.shape(), " is too small for pooling_ratio ", ratio[d]);
    }
    // Another stretch of the stream for each step, unless regions are to stay.
    Philox generator = deterministic ? start : state.reserve(ctx, static_cast<uint64_t>(sizes[0] + sizes[1]) + 2);
    Regions regions{in.shape(), Shape{in.dim(0), sizes[0], sizes[1], in.dim(3)}, {}, {}, overlapping};
    regions.rows = make_sequence(in.dim(1), sizes[0], generator, pseudo_random);
    regions.columns = make_sequence(in.dim(2), sizes[1], generator, pseudo_random);
    Tensor& out = ctx.allocate(0, regions.out);
    output_sequence(ctx, 1, regions.rows);
    output_sequence(ctx, 2, regions.columns);
    dispatch(in.dtype(), Elements{}, [&]<typename T>() { pool(regions, in.flat<T>(), out.flat<T>()); });
  }
  template <typename T>
  static void pool(const Regions& regions, const T* in, T* out) {
    const int64_t channels = regions.out[3];
    regions.for_each([&](int64_t to, int64_t a, int64_t b, int64_t c, int64_t d, int64_t n) {
      T* result = out + to;
      std::fill(result, result + channels, average ? T(0) : std::numeric_limits<T>::lowest());
      regions.for_pixels(n, a, b, c, d, [&](int64_t from) {
        const T* x = in + from;
        for (int64_t k = 0; k < channels; ++k) {
          if constexpr (average)
            result[k] += x[k];
          else
            result[k] = x[k] > result[k] ? x[k] : result[k];
        }
      });
      if constexpr (average)
        for (int64_t k = 0; k < channels; ++k) result[k] /= static_cast<T>((b - a) * (d - c));
    });
  }
  std::vector<double> ratio;
  bool pseudo_random, overlapping, deterministic;
  RandomState state;
  Philox start;
};

// Inputs of the maximum's gradient: orig_input, orig_output, out_backprop and the two sequences; of the average's: the
// shape of the input in place of the first two.
template <bool average>
struct FractionalPoolGrad : Kernel {
  explicit FractionalPoolGrad(const Construction& c) : overlapping(c.attr<bool>("overlapping", false)) {}
  void compute(Context& ctx) override {
    const int first = average ? 1 : 2;
    const Tensor& grad = ctx.input(first);
    if (average)
      require(ctx.input(0).rank() == 1 && ctx.input(0).dim(0) == 4,
              "orig_input_tensor_shape must be a vector of 4 elements, got shape ", ctx.input(0).shape());
    const Shape shape = average ? Shape(to_int64s(ctx.input(0))) : ctx.input(0).shape();
    require(shape.rank() == 4 && grad.rank() == 4, "input and out_backprop must be 4-dimensional, got shapes ", shape,
            " and ", grad.shape());
    require(grad.dim(0) == shape[0] && grad.dim(3) == shape[3], "out_backprop of shape ", grad.shape(),
            " does not go with an input of shape ", shape);
    if (!average)
      require(ctx.input(1).shape() == grad.shape(), "orig_output and out_backprop must have one shape, got ",
              ctx.input(1).shape(), " and ", grad.shape());
    Regions regions{shape, grad.shape(), {}, {}, overlapping};
    regions.rows = checked_sequence(ctx.input(first + 1), shape[1], grad.dim(1), "row_pooling_sequence");
    regions.columns = checked_sequence(ctx.input(first + 2), shape[2], grad.dim(2), "col_pooling_sequence");
    Tensor& out = ctx.allocate(0, shape);
    dispatch(grad.dtype(), Elements{}, [&]<typename T>() {
      std::fill_n(out.flat<T>(), out.num_elements(), T(0));
      spread(regions, average ? nullptr : ctx.input(0).flat<T>(), grad.flat<T>(), out.flat<T>());
    });
  }
  template <typename T>
  static void spread(const Regions& regions, const T* in, const T* grad, T* out) {
    const int64_t channels = regions.out[3];
    regions.for_each([&](int64_t from, int64_t a, int64_t b, int64_t c, int64_t d, int64_t n) {
      for (int64_t k = 0; k < channels; ++k) {
        if constexpr (average) {
          const T share = grad[from + k] / static_cast<T>((b - a) * (d - c));
          regions.for_pixels(n, a, b, c, d, [&](int64_t to) { out[to + k] += share; });
        } else {
          int64_t best = -1;
          regions.for_pixels(n, a, b, c, d, [&](int64_t at) {
            if (best < 0 || in[at + k] > in[best + k]) best = at;
          });
          if (best >= 0) out[best + k] += grad[from + k];
        }
      }
    });
  }
  bool overlapping;
};

REGISTER(kernel("FractionalMaxPool").types("T", Elements{}).make<FractionalPool<false>>());
REGISTER(kernel("FractionalAvgPool").types("T", Elements{}).make<FractionalPool<true>>());
REGISTER(kernel("FractionalMaxPoolGrad").types("T", Elements{}).make<FractionalPoolGrad<false>>());
REGISTER(kernel("FractionalAvgPoolGrad").types("T", Elements{}).make<FractionalPoolGrad<true>>());

}  // namespace
}  // namespace thalweg
