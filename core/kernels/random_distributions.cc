// Random numbers by rejection and by table: RandomGamma, RandomPoissonV2, Multinomial, RandomShuffle.
//
// Every output starts at its own place in the stream, so that the number of threads does not matter.
#include <cmath>

#include "compute/copies/elements.h"
#include "compute/random/random_state.h"
#include "kernel/registry.h"
#include "random/distributions.h"
#include "thread/parallel.h"

namespace thalweg {
namespace {

using Wide = Types<DType::float16, DType::float32, DType::float64>;

// Pairs of doubles from a generator; of each pair the second comes first, as in TensorFlow.
template <template <typename> class D>
class Pairs {
 public:
  double next(Philox& generator) {
    if (left_ == 0) {
      D<double>{}(generator.next(), values_);
      left_ = 2;
    }
    return values_[--left_];
  }

 private:
  double values_[2];
  int left_ = 0;
};

// Marsaglia and Tsang, "A simple method for generating gamma variables" (2000).
double sample_gamma(double alpha, Philox generator) {
  Pairs<UniformReal> uniforms;
  if (alpha == 1.0) return -std::log1p(-uniforms.next(generator));
  Pairs<Normal> normals;
  // A shape below 1 is sampled one higher and scaled down.
  bool small = alpha < 1;
  double d = alpha + (small ? 2.0 / 3 : -1.0 / 3), c = 1.0 / 3 / std::sqrt(d);
  // The stream gives out only for NaN and the like, where no sample is ever accepted.
  for (int attempt = 0; attempt < 100000; ++attempt) {
    double x = normals.next(generator), v = 1 + c * x;
    if (v <= 0) continue;
    v = v * v * v;
    double u = uniforms.next(generator), x2 = x * x;
    if (u < 1 - 0.0331 * x2 * x2 || std::log(u) < 0.5 * x * x + d * (1 - v + std::log(v))) {
      double result = d * v;
      return small ? result * std::pow(uniforms.next(generator), 1 / alpha) : result;
    }
  }
  return std::numeric_limits<double>::quiet_NaN();
}

// Knuth's product of uniforms for small rates, Hörmann's transformed rejection (1993) for large ones.
double sample_poisson(double rate, double most, Philox generator) {
  Pairs<UniformReal> uniforms;
  if (!(rate >= 0)) return std::numeric_limits<double>::quiet_NaN();
  if (rate < 10) {
    double limit = std::exp(-rate), product = 1;
    for (double x = 0;; x += 1) {
      product *= uniforms.next(generator);
      if (product <= limit && x <= most) return x;
    }
  }
  if (std::isinf(rate)) return rate;
  // Nearly all samples are beyond the type: all attempts to draw another one would fail.
  if (rate - 4 * std::sqrt(rate) > most) return most;
  double log_rate = std::log(rate), b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b;
  double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  for (int attempt = 0; attempt < 100000; ++attempt) {
    double u = uniforms.next(generator) - 0.5, v = uniforms.next(generator), shifted = 0.5 - std::abs(u);
    double k = std::floor((2 * a / shifted + b) * u + rate + 0.43);
    if (k > most) continue;
    if (shifted >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2)) return k;
    if (k < 0 || (shifted < 0.013 && v > shifted)) continue;
    double s = std::log(v * inverse_alpha / (a / (shifted * shifted) + b));
    int sign;
    if (s <= -rate + k * log_rate - lgamma_r(k + 1, &sign)) return k;
  }
  return most;
}

// The output has one sample of each parameter's distribution per element of the shape.
template <typename P, typename T, typename Sample>
void sample_each(Philox start, const P* parameters, int64_t count, T* out, int64_t samples, const Sample& sample) {
  parallel_for(count * samples, 256, [=, &sample](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t which = i / samples, at = i % samples;
      Philox generator = start;
      generator.skip(kBlocksPerOutput * static_cast<uint64_t>(i));
      out[at * count + which] = sample(static_cast<double>(parameters[which]), generator);
    }
  });
}

Shape joined(const Shape& samples, const Shape& parameters) {
  std::vector<int64_t> dims = samples.to_vector();
  dims.insert(dims.end(), parameters.begin(), parameters.end());
  return Shape(dims);
}

struct RandomGamma : Kernel {
  explicit RandomGamma(const Construction& c) : state(c) {}
  void compute(Context& ctx) override {
    const Tensor& alpha = ctx.input(1);
    Shape samples = shape_from(ctx.input(0));
    Tensor& out = ctx.allocate(0, joined(samples, alpha.shape()));
    if (out.num_elements() == 0) return;
    Philox generator = state.reserve_outputs(ctx, out.num_elements());
    dispatch(out.dtype(), Wide{}, [&]<typename T>() {
      sample_each(generator, alpha.flat<T>(), alpha.num_elements(), out.flat<T>(), samples.num_elements(),
                  [](double a, Philox g) { return static_cast<T>(sample_gamma(a, g)); });
    });
  }
  RandomState state;
};

template <typename T>
double largest() {
  if constexpr (std::is_same_v<T, half>)
    return 65504.0;
  else
    return static_cast<double>(std::numeric_limits<T>::max());
}

template <typename T>
T rounded(double x) {
  if constexpr (std::is_integral_v<T>) {
    if (std::isnan(x)) return std::numeric_limits<T>::min();
    if (x >= largest<T>()) return std::numeric_limits<T>::max();
  }
  return static_cast<T>(x);
}

struct RandomPoisson : Kernel {
  explicit RandomPoisson(const Construction& c) : state(c) {}
  void compute(Context& ctx) override {
    const Tensor& rate = ctx.input(1);
    Shape samples = shape_from(ctx.input(0));
    Tensor& out = ctx.allocate(0, joined(samples, rate.shape()));
    if (out.num_elements() == 0) return;
    Philox generator = state.reserve_outputs(ctx, out.num_elements());
    // The rates are few beside the samples: widened once, so that only the result type is compiled for.
    std::vector<double> rates(rate.num_elements());
    dispatch(rate.dtype(), Join<Wide, Indices>{}, [&]<typename R>() {
      for (size_t i = 0; i < rates.size(); ++i) rates[i] = static_cast<double>(rate.flat<R>()[i]);
    });
    dispatch(out.dtype(), Join<Wide, Indices>{}, [&]<typename T>() {
      sample_each(generator, rates.data(), rate.num_elements(), out.flat<T>(), samples.num_elements(),
                  [](double r, Philox g) { return rounded<T>(sample_poisson(r, largest<T>(), g)); });
    });
  }
  RandomState state;
};

// Draws class numbers for each row of unnormalized log probabilities.
void draw_classes(Context& ctx, const std::function<Philox(int64_t)>& reserve) {
  const Tensor& logits = ctx.input(0);
  const Tensor& count = ctx.input(1);
  require(logits.rank() == 2, "logits should be a matrix, got shape ", logits.shape());
  require(count.rank() == 0, "num_samples should be a scalar, got shape ", count.shape());
  int64_t samples = to_int64(count), rows = logits.dim(0), classes = logits.dim(1);
  require(samples >= 0, "num_samples should be nonnegative, got ", samples);
  require(classes > 0, "num_classes should be positive, got ", classes);
  Tensor& out = ctx.allocate(0, Shape{rows, samples});
  if (out.num_elements() == 0) return;
  Philox generator = reserve(rows * ((samples + 3) / 4 * 4) * 2);
  std::vector<double> values(logits.num_elements());
  dispatch(logits.dtype(), Reals{}, [&]<typename T>() {
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(logits.flat<T>()[i]);
  });
  auto write = [&]<typename T>(T* to) {
    parallel_for(rows, std::max<int64_t>(1, 4096 / (samples + classes)), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        double* cdf = values.data() + r * classes;
        double top = std::numeric_limits<double>::lowest(), total = 0;
        for (int64_t j = 0; j < classes; ++j)
          if (std::isfinite(cdf[j])) top = std::max(top, cdf[j]);
        for (int64_t j = 0; j < classes; ++j) {
          if (std::isfinite(cdf[j])) total += std::exp(cdf[j] - top);
          cdf[j] = total;
        }
        PhiloxWords words(generator, static_cast<uint64_t>(r * samples) * 2);
        for (int64_t s = 0; s < samples; ++s) {
          uint32_t high = words(), low = words();
          double wanted = uniform_double(high, low) * total;
          to[r * samples + s] = static_cast<T>(std::upper_bound(cdf, cdf + classes, wanted) - cdf);
        }
      }
    });
  };
  if (out.dtype() == DType::int32)
    write(out.flat<int32_t>());
  else
    write(out.flat<int64_t>());
}

struct Multinomial : Kernel {
  explicit Multinomial(const Construction& c) : state(c) {}
  void compute(Context& ctx) override {
    draw_classes(ctx, [&](int64_t outputs) { return state.reserve_outputs(ctx, outputs); });
  }
  RandomState state;
};

void stateless_multinomial(Context& ctx) {
  Philox generator = stateless_generator(ctx.input(2));
  draw_classes(ctx, [&](int64_t) { return generator; });
}

// Fisher and Yates, over the rows along dimension 0.
struct RandomShuffle : Kernel {
  explicit RandomShuffle(const Construction& c) : state(c) {}
  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    if (in.rank() == 0 || in.num_elements() <= 1 || in.dim(0) <= 1) {
      ctx.set_output(0, in);
      return;
    }
    int64_t n = in.dim(0), width = in.num_elements() / n;
    PhiloxWords words(state.reserve(ctx, static_cast<uint64_t>(n - 1 + 3) / 4));
    auto shuffle = [&](auto* rows) {
      for (int64_t i = 0; i + 1 < n; ++i) std::swap(rows[i], rows[i + words() % static_cast<uint32_t>(n - i)]);
    };
    if (width == 1 && is_plain(in.dtype())) {
      // The elements themselves change places.
      Tensor& out = ctx.forward_or_allocate({0}, 0, in.shape());
      if (out.raw() != in.raw()) copy_elements(in.dtype(), out.raw(), in.raw(), n);
      dispatch_width(in.dtype(), [&]<typename T>() { shuffle(out.flat<T>()); });
      return;
    }
    std::vector<int64_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    shuffle(order.data());
    Tensor& out = ctx.allocate(0, in.shape());
    if (!is_plain(in.dtype())) {
      auto* from = static_cast<const char*>(in.raw());
      auto* to = static_cast<char*>(out.raw());
      size_t row = width * size_of(in.dtype());
      for (int64_t i = 0; i < n; ++i) copy_elements(in.dtype(), to + i * row, from + order[i] * row, width);
      return;
    }
    size_t row = width * size_of(in.dtype());
    auto* from = static_cast<const char*>(in.raw());
    auto* to = static_cast<char*>(out.raw());
    parallel_for(n, std::max<int64_t>(1, int64_t{1 << 16} / static_cast<int64_t>(row)),
                 [=, &order](int64_t b, int64_t e) {
                   for (int64_t i = b; i < e; ++i) std::memcpy(to + i * row, from + order[i] * row, row);
                 });
  }
  RandomState state;
};

REGISTER(kernel("RandomGamma").types("T", Wide{}).make<RandomGamma>());
REGISTER(kernel("RandomPoisson").types("dtype", Wide{}).make<RandomPoisson>());
REGISTER(kernel("RandomPoissonV2").types("dtype", Join<Wide, Indices>{}).make<RandomPoisson>());
REGISTER(kernel("Multinomial").types("T", Reals{}).types("output_dtype", Indices{}).make<Multinomial>());
REGISTER(kernel("StatelessMultinomial")
             .types("T", Reals{})
             .types("output_dtype", Indices{})
             .function<stateless_multinomial>());
REGISTER(kernel("RandomShuffle").make<RandomShuffle>());

}  // namespace
}  // namespace thalweg
