// Training for quantization: floats rounded as a quantized type would round them, and the gradients of that.
#include "compute/elementwise/elementwise.h"

namespace thalweg {
namespace {

// A range moved a little, so that zero is exactly one of its steps.
struct Nudged {
  float low, high, scale, inverse, zero;

  Nudged(float min, float max, int64_t bits, bool narrow) {
    const float bottom = narrow ? 1.0f : 0.0f, top = static_cast<float>((int64_t{1} << bits) - 1);
    scale = (max - min) / (top - bottom);
    const float from_min = bottom - min / scale;
    const float zero_point = from_min < bottom ? bottom : from_min > top ? top : std::round(from_min);
    low = (bottom - zero_point) * scale;
    high = (top - zero_point) * scale;
    inverse = 1.0f / scale;
    zero = std::floor(-low * inverse + 0.5f);
  }
  [[gnu::always_inline]] static float quantized(float x, float low, float high, float scale, float inverse,
                                                float zero) {
    const float shifted = std::max(std::min(x, high), low) - low;
    return std::floor(shifted * inverse - zero + 0.5f) * scale;
  }
};

// The ranges of all channels, member by member, so that a loop over channels is vector code. A range that is not set
// yet, as 0 to 0, is `empty`: its scale is 0, and nothing is outside of it.
struct Ranges {
  std::vector<float> low, high, scale, inverse, zero, empty;
  void add(const Nudged& nudged, bool is_empty) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    low.push_back(is_empty ? -infinity : nudged.low);
    high.push_back(is_empty ? infinity : nudged.high);
    scale.push_back(is_empty ? 0.0f : nudged.scale);
    inverse.push_back(is_empty ? 0.0f : nudged.inverse);
    zero.push_back(is_empty ? 0.0f : nudged.zero);
    empty.push_back(is_empty);
  }
  int64_t size() const { return static_cast<int64_t>(low.size()); }
};

// One kernel for all: the range comes from attributes (Args), from scalars (Vars) or per channel along the last axis.
struct FakeQuantization : Kernel {
  explicit FakeQuantization(const Construction& c)
      : from_attrs_(c.def().op.find("Args") != std::string::npos),
        per_channel_(c.def().op.find("PerChannel") != std::string::npos),
        bits_(c.attr<int64_t>("num_bits", 8)),
        narrow_(c.attr<bool>("narrow_range", false)) {
    require(bits_ >= 2 && bits_ <= 16, "num_bits must be between 2 and 16, got ", bits_);
    if (!from_attrs_) return;
    min_ = c.attr<float>("min");
    max_ = c.attr<float>("max");
    require(min_ < max_, "min has to be smaller than max, got ", min_, " and ", max_);
  }

 protected:
  Ranges ranges(Context& ctx, int first, const Shape& shape) const {
    Ranges result;
    if (from_attrs_) {
      result.add(Nudged(min_, max_, bits_, narrow_), false);
      return result;
    }
    const Tensor &low = ctx.input(first), &high = ctx.input(first + 1);
    int64_t count = 1;
    if (per_channel_) {
      require(shape.rank() >= 1, "inputs must be at least a vector, got a scalar");
      count = shape[shape.rank() - 1];
    }
    for (const Tensor* range : {&low, &high})
      require(per_channel_ ? range->rank() == 1 && range->dim(0) == count : range->rank() == 0, "min and max must ",
              per_channel_ ? "be vectors with one element per channel" : "be scalars", ", got shape ", range->shape(),
              " for inputs of shape ", shape);
    for (int64_t c = 0; c < count; ++c) {
      const float a = low.flat<float>()[c], b = high.flat<float>()[c];
      result.add(Nudged(a, b, bits_, narrow_), a == 0 && b == 0);
    }
    return result;
  }
  bool from_attrs_, per_channel_;
  int64_t bits_;
  bool narrow_;
  float min_ = 0, max_ = 0;
};

struct Forward : FakeQuantization {
  using FakeQuantization::FakeQuantization;
  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    const Ranges all = ranges(ctx, 1, in.shape());
    Tensor& out = ctx.allocate(0, in.shape());
    const float* x = in.flat<float>();
    float* y = out.flat<float>();
    const int64_t n = in.num_elements(), channels = all.size();
    if (channels == 1) {
      const float low = all.low[0], high = all.high[0], scale = all.scale[0], inverse = all.inverse[0];
      const float zero = all.zero[0];
      if (all.empty[0]) return std::fill(y, y + n, 0.0f);
      parallel_for(n, kElementGrain, [=](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) y[i] = Nudged::quantized(x[i], low, high, scale, inverse, zero);
      });
      return;
    }
    const float *low = all.low.data(), *high = all.high.data(), *scale = all.scale.data();
    const float *inverse = all.inverse.data(), *zero = all.zero.data(), *empty = all.empty.data();
    parallel_for(channels == 0 ? 0 : n / channels, std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, channels)),
                 [=](int64_t begin, int64_t end) {
                   for (int64_t row = begin; row < end; ++row) {
                     const float* from = x + row * channels;
                     float* to = y + row * channels;
                     for (int64_t c = 0; c < channels; ++c) {
                       const float value = Nudged::quantized(from[c], low[c], high[c], scale[c], inverse[c], zero[c]);
                       to[c] = empty[c] != 0.0f ? 0.0f : value;
                     }
                   }
                 });
  }
};
REGISTER(kernel("FakeQuantWithMinMaxArgs").make<Forward>());
REGISTER(kernel("FakeQuantWithMinMaxVars").make<Forward>());
REGISTER(kernel("FakeQuantWithMinMaxVarsPerChannel").make<Forward>());

struct Backward : FakeQuantization {
  using FakeQuantization::FakeQuantization;
  void compute(Context& ctx) override {
    const Tensor &grad = ctx.input(0), &in = ctx.input(1);
    require(grad.shape() == in.shape(), "gradients and inputs must have one shape, got ", grad.shape(), " and ",
            in.shape());
    const Ranges all = ranges(ctx, 2, in.shape());
    const int64_t n = in.num_elements(), channels = all.size(), rows = channels == 0 ? 0 : n / channels;
    const float* g = grad.flat<float>();
    const float* x = in.flat<float>();
    float* to = ctx.allocate(0, in.shape()).flat<float>();
    // Blocks of a fixed size, whose sums are added in order: the same bits with any number of threads.
    const int64_t block = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, channels));
    const int64_t blocks = (rows + block - 1) / block;
    std::vector<double> outside(2 * blocks * channels, 0.0);
    parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        double *below = &outside[2 * b * channels], *above = below + channels;
        const int64_t first = b * block, last = std::min(rows, first + block);
        channels == 1 ? pass_one(all, x + first, g + first, to + first, last - first, below, above)
                      : pass_rows(all, x + first * channels, g + first * channels, to + first * channels, last - first,
                                  below, above);
      }
    });
    std::vector<double> below(channels, 0), above(channels, 0);
    for (int64_t b = 0; b < blocks; ++b)
      for (int64_t c = 0; c < channels; ++c) {
        below[c] += outside[2 * b * channels + c];
        above[c] += outside[(2 * b + 1) * channels + c];
      }
    if (from_attrs_) return;
    const Shape shape = per_channel_ ? Shape{channels} : Shape{};
    std::copy(below.begin(), below.end(), ctx.allocate(1, shape).flat<float>());
    std::copy(above.begin(), above.end(), ctx.allocate(2, shape).flat<float>());
  }

 private:
  // The gradients within the range, and the sums of those below and above it; in eight sums, which vectors hold.
  static void pass_one(const Ranges& all, const float* x, const float* g, float* to, int64_t n, double* below,
                       double* above) {
    typedef float Four __attribute__((vector_size(16)));
    typedef double Wide __attribute__((vector_size(32)));
    constexpr int64_t kSums = 8, kHalf = 4;
    const float low = all.low[0], high = all.high[0];
    const Four none = {}, lows = none + low, highs = none + high;
    Wide under[2] = {}, over[2] = {};
    int64_t i = 0;
    for (; i + kSums <= n; i += kSums)
#pragma GCC unroll 2
      for (int64_t k = 0; k < 2; ++k) {
        Four v, amount;
        std::memcpy(&v, x + i + k * kHalf, sizeof(v));
        std::memcpy(&amount, g + i + k * kHalf, sizeof(amount));
        const Four kept = (v >= lows) & (v <= highs) ? amount : none;
        std::memcpy(to + i + k * kHalf, &kept, sizeof(kept));
        under[k] += __builtin_convertvector(v < lows ? amount : none, Wide);
        over[k] += __builtin_convertvector(v > highs ? amount : none, Wide);
      }
    for (; i < n; ++i) {
      to[i] = x[i] >= low && x[i] <= high ? g[i] : 0.0f;
      under[0][0] += x[i] < low ? g[i] : 0.0f;
      over[0][0] += x[i] > high ? g[i] : 0.0f;
    }
    for (int64_t k = 0; k < kSums; ++k) {
      *below += under[k / kHalf][k % kHalf];
      *above += over[k / kHalf][k % kHalf];
    }
    if (all.empty[0]) std::copy_n(g, n, to);
  }
  static void pass_rows(const Ranges& all, const float* x, const float* g, float* to, int64_t rows, double* below,
                        double* above) {
    const int64_t channels = all.size();
    const float *low = all.low.data(), *high = all.high.data(), *empty = all.empty.data();
    for (int64_t row = 0; row < rows; ++row, x += channels, g += channels, to += channels) {
#pragma GCC ivdep
      for (int64_t c = 0; c < channels; ++c) {
        const bool is_below = x[c]<low[c], is_above = x[c]> high[c];
        const bool holds = ((x[c] >= low[c]) & (x[c] <= high[c])) | (empty[c] != 0.0f);
        to[c] = holds ? g[c] : 0.0f;
        below[c] += is_below ? g[c] : 0.0f;
        above[c] += is_above ? g[c] : 0.0f;
      }
    }
  }
};
REGISTER(kernel("FakeQuantWithMinMaxArgsGradient").make<Backward>());
REGISTER(kernel("FakeQuantWithMinMaxVarsGradient").make<Backward>());
REGISTER(kernel("FakeQuantWithMinMaxVarsPerChannelGradient").make<Backward>());

}  // namespace
}  // namespace thalweg
