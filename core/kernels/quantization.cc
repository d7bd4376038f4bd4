// Quantized types: floats to small integers and back, in the three modes that TensorFlow knows.
//
// A range [min, max] maps to the integers of a type. With an axis, every index along it has a range of its own.
#include "compute/elementwise/elementwise.h"
#include "compute/reduction/reduction.h"

namespace thalweg {
namespace {

enum class Mode { min_combined, min_first, scaled };

Mode mode_of(const Construction& c) {
  const std::string mode = c.attr<std::string>("mode", "MIN_COMBINED");
  return mode == "SCALED" ? Mode::scaled : mode == "MIN_FIRST" ? Mode::min_first : Mode::min_combined;
}

// A tensor seen as [outer, channels, inner], where each channel has its own range.
struct Channels {
  int64_t outer = 1, count = 1, inner = 1;
  Channels(const Shape& shape, int64_t axis) {
    if (axis < 0) {
      inner = shape.num_elements();
      return;
    }
    require(axis < shape.rank(), "axis ", axis, " is out of range for shape ", shape);
    const int at = static_cast<int>(axis);
    outer = shape.product(0, at);
    count = shape[at];
    inner = shape.product(at + 1, shape.rank());
  }
  // run(channel, offset, length) for every contiguous piece.
  template <typename Run>
  void for_each(const Run& run) const {
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t c = 0; c < count; ++c) run(c, (o * count + c) * inner, inner);
  }
};

void require_ranges(const Tensor& low, const Tensor& high, int64_t axis, int64_t count) {
  for (const Tensor* range : {&low, &high})
    require(axis < 0 ? range->num_elements() == 1 : range->rank() == 1 && range->dim(0) == count,
            "the range must have ", axis < 0 ? "one element" : "one element per channel", " (", count, "), got shape ",
            range->shape());
}

template <typename T, typename C>
inline T saturate(C x) {
  if (!(x > static_cast<double>(std::numeric_limits<T>::lowest()))) return std::numeric_limits<T>::lowest();
  if (x >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return static_cast<T>(x);
}

// to[i] = f(from[i]) within the limits of T; NaN becomes the lowest number.
template <typename T, typename F>
void quantize_run(const float* from, int64_t n, T* to, const F& f) {
  using C = decltype(f(0.0f));
  if constexpr (sizeof(T) <= 2) {
    // All integers of the type are numbers of both float types: a vector clamps them. In two loops, as the compiler
    // would compare after the conversion otherwise.
    constexpr C lowest = std::numeric_limits<T>::lowest(), largest = std::numeric_limits<T>::max();
    constexpr int64_t kBlock = 256;
    C clamped[kBlock];
    for (int64_t begin = 0; begin < n; begin += kBlock) {
      const int64_t count = std::min(kBlock, n - begin);
      for (int64_t i = 0; i < count; ++i) {
        C x = f(from[begin + i]);
        x = x > lowest ? x : lowest;
        clamped[i] = x < largest ? x : largest;
      }
      for (int64_t i = 0; i < count; ++i) to[begin + i] = static_cast<T>(static_cast<int32_t>(clamped[i]));
    }
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = saturate<T>(f(from[i]));
  }
}

struct QuantizeV2 : Kernel {
  explicit QuantizeV2(const Construction& c)
      : mode_(mode_of(c)),
        to_even_(c.attr<std::string>("round_mode", "HALF_AWAY_FROM_ZERO") == "HALF_TO_EVEN"),
        narrow_(c.attr<bool>("narrow_range", false)),
        axis_(c.attr<int64_t>("axis", -1)),
        least_(c.attr<float>("ensure_minimum_range", 0.01f)) {
    require(!to_even_ || mode_ == Mode::scaled, "round_mode HALF_TO_EVEN is only supported for mode SCALED");
  }

  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    const Channels channels(in.shape(), axis_);
    require_ranges(ctx.input(1), ctx.input(2), axis_, channels.count);
    Tensor& out = ctx.allocate(0, in.shape());
    const Shape ranges = axis_ < 0 ? Shape{} : Shape{channels.count};
    float* low = ctx.allocate(1, ranges).flat<float>();
    float* high = ctx.allocate(2, ranges).flat<float>();
    for (int64_t c = 0; c < channels.count; ++c) {
      const float a = ctx.input(1).flat<float>()[c], b = ctx.input(2).flat<float>()[c];
      require(a <= b, "max_range must be at least min_range, got ", b, " and ", a);
      // The range always holds 0, and is never empty.
      low[c] = std::min(0.0f, a);
      const float epsilon = std::max(1.0f, std::max(std::fabs(a), std::fabs(b))) * least_;
      high[c] = std::max(0.0f, std::max(b, low[c] + epsilon));
    }
    dispatch(out.dtype(), Quantized{}, [&]<typename T>() {
      channels.for_each([&](int64_t c, int64_t offset, int64_t n) {
        // The last piece of a channel must see the range that the first one saw.
        float first = low[c], last = high[c];
        quantize(in.flat<float>() + offset, out.flat<T>() + offset, n, first, last);
        if (offset + channels.count * n >= in.num_elements()) low[c] = first, high[c] = last;
      });
    });
  }

 private:
  template <typename T>
  void quantize(const float* x, T* y, int64_t n, float& low, float& high) const {
    const double lowest = static_cast<double>(std::numeric_limits<T>::lowest());
    const double largest = static_cast<double>(std::numeric_limits<T>::max());
    auto run = [&](auto f) {
      parallel_for(n, kElementGrain,
                   [&](int64_t begin, int64_t end) { quantize_run(x + begin, end - begin, y + begin, f); });
    };
    const float a = low, b = high;
    if (mode_ == Mode::min_combined) {
      const float scale = static_cast<float>((largest - lowest) / (b - a));
      const float half_range = std::is_signed_v<T> ? static_cast<float>((largest - lowest + 1) / 2) : 0.0f;
      if (std::is_signed_v<T>)
        run([=](float v) { return std::round((std::clamp(v, a, b) - a) * scale - half_range); });
      else
        run([=](float v) { return std::floor((std::clamp(v, a, b) - a) * scale + 0.5f); });
    } else if (mode_ == Mode::min_first) {
      const double steps = std::exp2(8.0 * sizeof(T)), range = (static_cast<double>(b) - a) * (steps / (steps - 1));
      const float scale = static_cast<float>(steps / range);
      const double shift = std::round(static_cast<double>(a) * (steps / range)) - lowest;
      run([=](float v) { return std::round(v * scale) - shift; });
    } else {
      const float bottom = static_cast<float>(lowest) + (narrow_ ? 1.0f : 0.0f), top = static_cast<float>(largest);
      const float from_low = bottom * a > 0 ? bottom / a : std::numeric_limits<float>::max();
      const float from_high = top * b > 0 ? top / b : std::numeric_limits<float>::max();
      const float scale = std::min(from_low, from_high);
      low = bottom / scale;
      high = top / scale;
      const float first = low, last = high;
      if (to_even_)
        run([=](float v) { return std::nearbyint(std::clamp(v, first, last) * scale); });
      else
        run([=](float v) { return std::round(std::clamp(v, first, last) * scale); });
    }
  }

  Mode mode_;
  bool to_even_, narrow_;
  int64_t axis_;
  float least_;
};
REGISTER(kernel("QuantizeV2").types("T", Quantized{}).make<QuantizeV2>());

struct Dequantize : Kernel {
  explicit Dequantize(const Construction& c)
      : mode_(mode_of(c)), narrow_(c.attr<bool>("narrow_range", false)), axis_(c.attr<int64_t>("axis", -1)) {}

  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    const Channels channels(in.shape(), axis_);
    require_ranges(ctx.input(1), ctx.input(2), axis_, channels.count);
    Tensor& out = ctx.allocate(0, in.shape());
    const float* low = ctx.input(1).flat<float>();
    const float* high = ctx.input(2).flat<float>();
    dispatch(out.dtype(), Types<DType::float32, DType::bfloat16>{}, [&]<typename R>() {
      dispatch(in.dtype(), Quantized{}, [&]<typename T>() {
        channels.for_each([&](int64_t c, int64_t offset, int64_t n) {
          const auto [scale, shift, zero] = line<T>(low[c], high[c]);
          const T* x = in.flat<T>() + offset;
          R* y = out.flat<R>() + offset;
          parallel_for(n, kElementGrain, [=, scale = scale, shift = shift, zero = zero](int64_t begin, int64_t end) {
            // A float holds the integers of 16 bits and their sums.
            using Wide = std::conditional_t<sizeof(T) <= 2, float, double>;
            const T* const from = x;
            R* const to = y;
            const Wide first = static_cast<Wide>(zero);
            const float step = scale, base = shift;
            for (int64_t i = begin; i < end; ++i)
              to[i] = static_cast<R>(static_cast<float>(static_cast<Wide>(from[i]) + first) * step + base);
          });
        });
      });
    });
  }

 private:
  struct Line {
    float scale, shift;
    double zero;
  };
  // value = (integer + zero) * scale + shift
  template <typename T>
  Line line(float low, float high) const {
    const double lowest = static_cast<double>(std::numeric_limits<T>::lowest());
    const double largest = static_cast<double>(std::numeric_limits<T>::max());
    if (mode_ == Mode::min_combined) {
      const double half_range = std::is_signed_v<T> ? (largest - lowest + 1) / 2 : 0;
      return {(high - low) / static_cast<float>(largest - lowest), low, half_range};
    }
    if (mode_ == Mode::min_first) {
      const double steps = std::exp2(8.0 * sizeof(T));
      const double range = (static_cast<double>(high) - low) * (steps / (steps - 1));
      const double scale = range / steps;
      const double first = low == high ? low : std::round(low / scale) * scale;
      return {static_cast<float>(scale), static_cast<float>(first), -lowest};
    }
    const float top = high / static_cast<float>(largest);
    const float bottom = static_cast<float>(lowest) + (narrow_ ? 1.0f : 0.0f);
    return {std::is_signed_v<T> ? std::max(low / bottom, top) : top, 0.0f, 0.0};
  }

  Mode mode_;
  bool narrow_;
  int64_t axis_;
};
REGISTER(kernel("Dequantize").types("T", Quantized{}).make<Dequantize>());

// Rounds floats to the values that `num_bits` integers can represent.
struct QuantizeAndDequantize : Kernel {
  explicit QuantizeAndDequantize(const Construction& c)
      : signed_(c.attr<bool>("signed_input", true)),
        range_given_(c.attr<bool>("range_given", false)),
        narrow_(c.attr<bool>("narrow_range", false)),
        up_(c.attr<std::string>("round_mode", "HALF_TO_EVEN") == "HALF_UP"),
        axis_(c.attr<int64_t>("axis", -1)),
        bits_(c.attr<int64_t>("num_bits", 8)) {}

  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    int64_t bits = bits_;
    if (ctx.num_inputs() == 4) {
      require(ctx.input(3).rank() == 0, "num_bits must be a scalar, got shape ", ctx.input(3).shape());
      bits = to_int64(ctx.input(3));
    }
    require(bits > 0 && bits < (signed_ ? 62 : 63), "num_bits ", bits,
            " is out of range, with signed_input = ", signed_ ? "true" : "false");
    const Channels channels(in.shape(), axis_);
    if (range_given_) require_ranges(ctx.input(1), ctx.input(2), axis_, channels.count);
    Tensor& out = ctx.allocate(0, in.shape());
    dispatch(in.dtype(), Floats{}, [&]<typename T>() {
      using C = Compute<T>;
      std::vector<C> low(channels.count, 0), high(channels.count, 0);
      ranges<T>(ctx, channels, low, high);
      channels.for_each([&](int64_t c, int64_t offset, int64_t n) {
        round_all(in.flat<T>() + offset, out.flat<T>() + offset, n, bits, low[c], high[c]);
      });
    });
  }

 private:
  template <typename T, typename C>
  void ranges(Context& ctx, const Channels& channels, std::vector<C>& low, std::vector<C>& high) const {
    std::vector<bool> seen(channels.count, false);
    if (range_given_) {
      for (int64_t c = 0; c < channels.count; ++c) {
        low[c] = static_cast<C>(ctx.input(1).flat<T>()[c]);
        high[c] = static_cast<C>(ctx.input(2).flat<T>()[c]);
        require(low[c] <= high[c], "invalid range: input_min ", low[c], " > input_max ", high[c]);
      }
      return;
    }
    channels.for_each([&](int64_t c, int64_t offset, int64_t n) {
      if (n == 0) return;
      // Several vectors, each lane with every so many-th element.
      using Vector = typename VectorOf<C>::type;
      constexpr int64_t kLanes = VectorOf<C>::kLanes, kVectors = 4;
      const T* x = ctx.input(0).flat<T>() + offset;
      C first = seen[c] ? low[c] : static_cast<C>(x[0]), last = seen[c] ? high[c] : first;
      Vector least[kVectors], most[kVectors];
      std::fill_n(least, kVectors, Vector{} + first);
      std::fill_n(most, kVectors, Vector{} + last);
      int64_t i = 0;
      for (; i + kVectors * kLanes <= n; i += kVectors * kLanes)
#pragma GCC unroll 4
        for (int64_t k = 0; k < kVectors; ++k) {
          const Vector v = load_lanes<T, C>(x + i + k * kLanes);
          least[k] = v < least[k] ? v : least[k];
          most[k] = v > most[k] ? v : most[k];
        }
      const auto take = [&](C v, C w) {
        first = v < first ? v : first;
        last = w > last ? w : last;
      };
      for (int64_t k = 0; k < kVectors; ++k)
        for (int64_t l = 0; l < kLanes; ++l) take(least[k][l], most[k][l]);
      for (; i < n; ++i) take(static_cast<C>(x[i]), static_cast<C>(x[i]));
      low[c] = first;
      high[c] = last;
      seen[c] = true;
    });
  }

  template <typename T, typename C>
  void round_all(const T* x, T* y, int64_t n, int64_t bits, C low, C high) const {
    const C bottom = signed_ ? static_cast<C>(-(int64_t{1} << (bits - 1)) + (narrow_ ? 1 : 0)) : C(0);
    const C top = static_cast<C>(signed_ ? (int64_t{1} << (bits - 1)) - 1 : (int64_t{1} << bits) - 1);
    const C from_low = bottom * low > 0 ? bottom / low : std::numeric_limits<C>::max();
    const C from_high = top * high > 0 ? top / high : std::numeric_limits<C>::max();
    C scale, inverse;
    if (from_low < from_high) {
      scale = from_low;
      inverse = low / bottom;
      high = top * inverse;
    } else {
      scale = from_high;
      inverse = top == 0 ? C(0) : high / top;
      low = bottom * inverse;
    }
    auto run = [&]<bool clamped, bool up>() {
      parallel_for(n, kElementGrain, [=](int64_t begin, int64_t end) {
        const C bottom_value = low, top_value = high, factor = scale, step = inverse;
        for (int64_t i = begin; i < end; ++i) {
          C v = static_cast<C>(x[i]);
          if constexpr (clamped) v = std::max(std::min(v, top_value), bottom_value);
          v *= factor;
          v = up ? std::floor(v + C(0.5)) : std::nearbyint(v);
          y[i] = static_cast<T>(v * step);
        }
      });
    };
    if (range_given_)
      up_ ? run.template operator()<true, true>() : run.template operator()<true, false>();
    else
      up_ ? run.template operator()<false, true>() : run.template operator()<false, false>();
  }

  bool signed_, range_given_, narrow_, up_;
  int64_t axis_, bits_;
};
REGISTER(kernel("QuantizeAndDequantizeV2").types("T", Floats{}).make<QuantizeAndDequantize>());
REGISTER(kernel("QuantizeAndDequantizeV4").types("T", Floats{}).make<QuantizeAndDequantize>());
REGISTER(kernel("QuantizeAndDequantizeV3").types("T", Floats{}).make<QuantizeAndDequantize>());

}  // namespace
}  // namespace thalweg
