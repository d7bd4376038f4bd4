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
  float operator()(float x) const {
    const float shifted = std::max(std::min(x, high), low) - low;
    return std::floor(shifted * inverse - zero + 0.5f) * scale;
  }
  bool holds(float x) const { return x >= low && x <= high; }
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
  // A range that is not set yet, as 0 to 0, means: nothing is quantized.
  struct Range {
    bool empty;
    Nudged nudged;
  };
  std::vector<Range> ranges(Context& ctx, int first, const Shape& shape) const {
    if (from_attrs_) return {{false, Nudged(min_, max_, bits_, narrow_)}};
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
    std::vector<Range> result;
    for (int64_t c = 0; c < count; ++c) {
      const float a = low.flat<float>()[c], b = high.flat<float>()[c];
      result.push_back({a == 0 && b == 0, Nudged(a, b, bits_, narrow_)});
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
    const std::vector<Range> all = ranges(ctx, 1, in.shape());
    Tensor& out = ctx.allocate(0, in.shape());
    const float* x = in.flat<float>();
    float* y = out.flat<float>();
    const int64_t n = in.num_elements(), count = static_cast<int64_t>(all.size());
    parallel_for(n, kElementGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Range& range = all[count == 1 ? 0 : i % count];
        y[i] = range.empty ? 0.0f : range.nudged(x[i]);
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
    const std::vector<Range> all = ranges(ctx, 2, in.shape());
    const int64_t n = in.num_elements(), count = static_cast<int64_t>(all.size());
    const float* g = grad.flat<float>();
    const float* x = in.flat<float>();
    float* to = ctx.allocate(0, in.shape()).flat<float>();
    std::vector<double> below(count, 0), above(count, 0);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t c = count == 1 ? 0 : i % count;
      const Range& range = all[c];
      to[i] = range.empty || range.nudged.holds(x[i]) ? g[i] : 0.0f;
      if (range.empty) continue;
      if (x[i] < range.nudged.low) below[c] += g[i];
      if (x[i] > range.nudged.high) above[c] += g[i];
    }
    if (from_attrs_) return;
    const Shape shape = per_channel_ ? Shape{count} : Shape{};
    std::copy(below.begin(), below.end(), ctx.allocate(1, shape).flat<float>());
    std::copy(above.begin(), above.end(), ctx.allocate(2, shape).flat<float>());
  }
};
REGISTER(kernel("FakeQuantWithMinMaxArgsGradient").make<Backward>());
REGISTER(kernel("FakeQuantWithMinMaxVarsGradient").make<Backward>());
REGISTER(kernel("FakeQuantWithMinMaxVarsPerChannelGradient").make<Backward>());

}  // namespace
}  // namespace thalweg
