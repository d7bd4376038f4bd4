// FusedBatchNorm and its gradient, with the statistics of the batch or with given ones.
//
// The statistics are made in one pass over memory: mean and sum of squared deviations of a block that fits the cache,
// merged with those of the blocks before it. That is as precise as two passes, where E[x^2] - E[x]^2 is not.
#include "compute/reduction/column_sums.h"
#include "compute/windows/pooling.h"

namespace thalweg {
namespace {

using Elements = Types<DType::float32, DType::float16, DType::bfloat16>;
using Vector = std::vector<float>;

// The input as [outer, channels, inner]; inner is 1 for channels last.
struct Layout {
  int64_t outer, channels, inner;
  int64_t count() const { return outer * inner; }  // Elements per channel.
};

Layout layout_of(const Shape& shape, bool channels_first, bool allow_volumes) {
  require(shape.rank() == 4 || (allow_volumes && shape.rank() == 5), "input must be 4-dimensional",
          allow_volumes ? " or 5-dimensional" : "", ", got shape ", shape);
  int axis = channels_first ? 1 : shape.rank() - 1;
  return {shape.product(0, axis), shape[axis], shape.product(axis + 1, shape.rank())};
}

// Mean and sum of squared deviations of each channel, over `count` elements.
struct Moments {
  explicit Moments(int64_t channels) : mean(channels), squares(channels) {}
  int64_t count = 0;
  Vector mean, squares;

  // Adds those of further elements.
  void merge(int64_t more, const float* other_mean, const float* other_squares) {
    if (more == 0) return;
    const float weight = static_cast<float>(static_cast<double>(more) / static_cast<double>(count + more));
    const float product = static_cast<float>(count) * weight;
    for (size_t c = 0; c < mean.size(); ++c) {
      float difference = other_mean[c] - mean[c];
      mean[c] += difference * weight;
      squares[c] += other_squares[c] + difference * difference * product;
    }
    count += more;
  }
};

// Channels last: blocks of rows.
void add_rows(const float* x, int64_t rows, int64_t channels, Moments& moments) {
  const int64_t block = std::max<int64_t>(1, 8 * 1024 / std::max<int64_t>(1, channels));
  Vector mean(channels), squares(channels);
  for (int64_t begin = 0; begin < rows; begin += block) {
    const int64_t n = std::min(block, rows - begin);
    const float* from = x + begin * channels;
    const float part = 1.0f / static_cast<float>(n);
    for_channels<float, 4>(channels, [&]<typename P, int N>(int64_t c) {
      typename P::type sum[N], centre[N], deviation[N];
#pragma GCC unroll 4
      for (int k = 0; k < N; ++k) sum[k] = P::fill(0);
      for (int64_t r = 0; r < n; ++r)
#pragma GCC unroll 4
        for (int k = 0; k < N; ++k) sum[k] += P::load(from + r * channels + c + k * P::size);
#pragma GCC unroll 4
      for (int k = 0; k < N; ++k) centre[k] = sum[k] * P::fill(part), deviation[k] = P::fill(0);
      for (int64_t r = 0; r < n; ++r)
#pragma GCC unroll 4
        for (int k = 0; k < N; ++k) {
          auto d = P::load(from + r * channels + c + k * P::size) - centre[k];
          deviation[k] += d * d;
        }
#pragma GCC unroll 4
      for (int k = 0; k < N; ++k) {
        P::store(mean.data() + c + k * P::size, centre[k]);
        P::store(squares.data() + c + k * P::size, deviation[k]);
      }
    });
    moments.merge(n, mean.data(), squares.data());
  }
}

Moments moments_of(const Layout& at, const float* x) {
  Moments total(at.channels);
  if (at.inner == 1) {
    const RowPieces pieces(at.outer, at.channels);
    std::vector<Moments> parts(pieces.count, Moments(at.channels));
    pieces.run([&](int64_t p, int64_t begin, int64_t end) {
      add_rows(x + begin * at.channels, end - begin, at.channels, parts[p]);
    });
    for (const Moments& part : parts) total.merge(part.count, part.mean.data(), part.squares.data());
    return total;
  }
  parallel_for(at.channels, pooling_grain(at.count()), [&](int64_t begin, int64_t end) {
    constexpr int64_t kBlock = 8 * 1024;
    for (int64_t c = begin; c < end; ++c) {
      Moments one(1);
      for (int64_t o = 0; o < at.outer; ++o)
        for (int64_t start = 0; start < at.inner; start += kBlock) {
          const int64_t n = std::min(kBlock, at.inner - start);
          const float* from = x + (o * at.channels + c) * at.inner + start;
          const float mean = lane_sum<float>(n, [&](int64_t i) { return from[i]; }) / static_cast<float>(n);
          const float squares = lane_sum<float>(n, [&](int64_t i) { return (from[i] - mean) * (from[i] - mean); });
          one.merge(n, &mean, &squares);
        }
      total.mean[c] = one.mean[0];
      total.squares[c] = one.squares[0];
    }
  });
  total.count = at.count();
  return total;
}

// Calls row(channel, step, offset, n) for runs of elements: n channels beginning at `channel` (step 1), or n elements
// of one channel (step 0).
template <typename Row>
void for_each_run(const Layout& at, const Row& row) {
  const int64_t width = at.inner == 1 ? at.channels : at.inner;
  const int64_t runs = at.inner == 1 ? at.outer : at.outer * at.channels;
  parallel_for(runs, pooling_grain(width), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      if (at.inner == 1)
        row(int64_t{0}, std::true_type{}, r * width, width);
      else
        row(r % at.channels, std::false_type{}, r * width, width);
    }
  });
}

void check_vector(const Tensor& v, int64_t channels, const char* what) {
  require(v.rank() == 1 && v.dim(0) == channels, what, " must be a vector with one element per channel: expected [",
          channels, "], got shape ", v.shape());
}

bool is_channels_first(const Construction& c) { return c.attr<std::string>("data_format", "NHWC")[1] == 'C'; }

struct FusedBatchNorm : Kernel {
  explicit FusedBatchNorm(const Construction& c)
      : epsilon(c.attr<float>("epsilon", 1e-4f)),
        factor(c.attr<float>("exponential_avg_factor", 1.0f)),
        channels_first(is_channels_first(c)),
        training(c.attr<bool>("is_training", true)),
        third(c.num_outputs() == 6) {}

  void compute(Context& ctx) override {
    const Layout at = layout_of(ctx.input(0).shape(), channels_first, third);
    const Shape shape = ctx.input(0).shape();
    check_vector(ctx.input(1), at.channels, "scale");
    check_vector(ctx.input(2), at.channels, "offset");
    const bool given = !training || factor != 1.0f;
    for (int i : {3, 4})
      if (given) check_vector(ctx.input(i), at.channels, i == 3 ? "mean" : "variance");
    float* out[4];
    for (int i = 1; i < 5; ++i) out[i - 1] = ctx.allocate(i, Shape{at.channels}).flat<float>();
    if (third) ctx.allocate(5, Shape{}).flat<float>()[0] = 0;
    const float* old_mean = given ? ctx.input(3).flat<float>() : nullptr;
    const float* old_variance = given ? ctx.input(4).flat<float>() : nullptr;
    const Tensor in = widened(ctx.input(0));
    Vector mean(at.channels), factors(at.channels);
    if (training) {
      statistics(at, in.flat<float>(), old_mean, old_variance, out);
    } else {
      for (int k : {0, 2}) std::copy_n(old_mean, at.channels, out[k]);
      for (int k : {1, 3}) std::copy_n(old_variance, at.channels, out[k]);
    }
    const float* scale = ctx.input(1).flat<float>();
    const float* offset = ctx.input(2).flat<float>();
    for (int64_t c = 0; c < at.channels; ++c) {
      mean[c] = out[2][c];
      factors[c] = scale[c] / std::sqrt(out[3][c] + epsilon);
    }
    const bool narrow = in.dtype() != ctx.input(0).dtype();
    Tensor result = narrow ? Tensor(DType::float32, shape) : ctx.allocate(0, shape);
    const float* x = in.flat<float>();
    float* y = result.flat<float>();
    for_each_run(at, [&](int64_t c, auto step, int64_t o, int64_t n) {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) {
        const int64_t k = step ? i : c;
        y[o + i] = (x[o + i] - mean[k]) * factors[k] + offset[k];
      }
    });
    if (narrow) narrow_into(result, ctx.allocate(0, shape));
  }

  // Outputs: running mean and variance, and the batch's own, which the gradient needs.
  void statistics(const Layout& at, const float* x, const float* old_mean, const float* old_variance,
                  float** out) const {
    const Moments moments = moments_of(at, x);
    const float count = static_cast<float>(at.count());
    const float unbiased = count / std::max(count - 1.0f, 1.0f);
    for (int64_t c = 0; c < at.channels; ++c) {
      const float mean = at.count() ? moments.mean[c] : std::numeric_limits<float>::quiet_NaN();
      const float variance = moments.squares[c] / count;  // NaN if there is nothing.
      out[2][c] = mean;
      out[3][c] = variance;
      out[0][c] = factor == 1.0f ? mean : (1 - factor) * old_mean[c] + factor * mean;
      out[1][c] = factor == 1.0f ? variance * unbiased : (1 - factor) * old_variance[c] + factor * variance * unbiased;
    }
  }
  float epsilon, factor;
  bool channels_first, training, third;
};

// Inputs: y_backprop, x, scale, mean, variance; outputs: the gradients of x, scale and offset, and two empty ones.
struct FusedBatchNormGrad : Kernel {
  explicit FusedBatchNormGrad(const Construction& c)
      : epsilon(c.attr<float>("epsilon", 1e-4f)),
        channels_first(is_channels_first(c)),
        training(c.attr<bool>("is_training", true)),
        third(c.num_inputs() == 6) {}

  void compute(Context& ctx) override {
    const Shape shape = ctx.input(1).shape();
    require(ctx.input(0).shape() == shape, "y_backprop and x must have one shape, got ", ctx.input(0).shape(), " and ",
            shape);
    const Layout at = layout_of(shape, channels_first, third);
    for (int i : {2, 3, 4}) check_vector(ctx.input(i), at.channels, i == 2 ? "scale" : i == 3 ? "mean" : "variance");
    const Tensor grad = widened(ctx.input(0)), in = widened(ctx.input(1));
    const float* dy = grad.flat<float>();
    const float* x = in.flat<float>();
    const float* scale = ctx.input(2).flat<float>();
    const float* mean = ctx.input(3).flat<float>();
    const float* variance = ctx.input(4).flat<float>();
    Vector sums(2 * at.channels);
    add_up(at, dy, x, mean, sums.data());
    const float* of_dy = sums.data();
    const float* of_product = sums.data() + at.channels;

    float* scale_grad = ctx.allocate(1, Shape{at.channels}).flat<float>();
    float* offset_grad = ctx.allocate(2, Shape{at.channels}).flat<float>();
    for (int i : {3, 4}) ctx.allocate(i, Shape{0});
    Vector factors(at.channels), slopes(at.channels), constants(at.channels);
    const float part = training && at.count() ? 1.0f / static_cast<float>(at.count()) : 0.0f;
    for (int64_t c = 0; c < at.channels; ++c) {
      const float inverse = 1.0f / std::sqrt(variance[c] + epsilon);
      scale_grad[c] = of_product[c] * inverse;
      offset_grad[c] = of_dy[c];
      factors[c] = scale[c] * inverse;
      slopes[c] = factors[c] * of_product[c] * inverse * inverse * part;
      constants[c] = factors[c] * of_dy[c] * part;
    }
    const bool narrow = in.dtype() != ctx.input(1).dtype();
    Tensor result = narrow ? Tensor(DType::float32, shape) : ctx.allocate(0, shape);
    float* dx = result.flat<float>();
    for_each_run(at, [&](int64_t c, auto step, int64_t o, int64_t n) {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) {
        const int64_t k = step ? i : c;
        dx[o + i] = dy[o + i] * factors[k] - (x[o + i] - mean[k]) * slopes[k] - constants[k];
      }
    });
    if (narrow) narrow_into(result, ctx.allocate(0, shape));
  }

  // sums[0, C) of dy, and sums[C, 2 C) of dy (x - mean).
  static void add_up(const Layout& at, const float* dy, const float* x, const float* mean, float* sums) {
    const int64_t channels = at.channels;
    if (at.inner == 1) {
      sum_pieces(at.outer, channels, 2 * channels, sums, [&](int64_t begin, int64_t end, float* to) {
        for_channels<float, 2>(channels, [&]<typename P, int N>(int64_t c) {
          typename P::type one[N], two[N], centre[N];
#pragma GCC unroll 4
          for (int k = 0; k < N; ++k) {
            one[k] = two[k] = P::fill(0);
            centre[k] = P::load(mean + c + k * P::size);
          }
          for (int64_t r = begin; r < end; ++r)
#pragma GCC unroll 4
            for (int k = 0; k < N; ++k) {
              const int64_t i = r * channels + c + k * P::size;
              const auto g = P::load(dy + i);
              one[k] += g;
              two[k] += g * (P::load(x + i) - centre[k]);
            }
#pragma GCC unroll 4
          for (int k = 0; k < N; ++k) {
            P::store(to + c + k * P::size, one[k]);
            P::store(to + channels + c + k * P::size, two[k]);
          }
        });
      });
      return;
    }
    parallel_for(channels, pooling_grain(at.count()), [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        sums[c] = sums[channels + c] = 0;
        for (int64_t o = 0; o < at.outer; ++o) {
          const int64_t start = (o * channels + c) * at.inner;
          const float* g = dy + start;
          const float* from = x + start;
          const float centre = mean[c];
          sums[c] += lane_sum<float>(at.inner, [&](int64_t i) { return g[i]; });
          sums[channels + c] += lane_sum<float>(at.inner, [&](int64_t i) { return g[i] * (from[i] - centre); });
        }
      }
    });
  }
  float epsilon;
  bool channels_first, training, third;
};

using Float = Types<DType::float32>;
REGISTER(kernel("FusedBatchNorm").types("T", Float{}).make<FusedBatchNorm>());
REGISTER(kernel("FusedBatchNormGrad").types("T", Float{}).make<FusedBatchNormGrad>());
REGISTER(kernel("FusedBatchNormV2").types("T", Elements{}).types("U", Float{}).make<FusedBatchNorm>());
REGISTER(kernel("FusedBatchNormGradV2").types("T", Elements{}).types("U", Float{}).make<FusedBatchNormGrad>());
REGISTER(kernel("FusedBatchNormV3").types("T", Elements{}).types("U", Float{}).make<FusedBatchNorm>());
REGISTER(kernel("FusedBatchNormGradV3").types("T", Elements{}).types("U", Float{}).make<FusedBatchNormGrad>());

}  // namespace
}  // namespace thalweg
