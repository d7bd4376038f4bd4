// Colours of images: RGBToHSV, HSVToRGB, AdjustHue, AdjustSaturation and AdjustContrastv2.
#include "compute/elementwise/elementwise.h"

namespace thalweg {
namespace {

template <typename C>
struct Color {
  C a, b, c;
};

// Hue as a part of the circle, in [0, 1); saturation; value. Grey has the hue 0. All cases are computed and then
// chosen from, so that the loops over pixels vectorize.
template <typename C>
inline Color<C> to_hsv(const Color<C>& rgb) {
  C value = std::max(rgb.a, std::max(rgb.b, rgb.c)), range = value - std::min(rgb.a, std::min(rgb.b, rgb.c));
  C quotient = range / value, unit = C{1} / (C{6} * range);
  C red = unit * (rgb.b - rgb.c), green = unit * (rgb.c - rgb.a) + C{2} / C{6};
  C blue = unit * (rgb.a - rgb.b) + C{4} / C{6};
  C hue = rgb.a == value ? red : (rgb.b == value ? green : blue);
  C around = hue + 1;
  hue = hue < 0 ? around : hue;
  return {range > 0 ? hue : C{0}, value > 0 ? quotient : C{0}, value};
}

template <typename C>
inline Color<C> to_rgb(const Color<C>& hsv) {
  auto channel = [&](C level) { return ((std::min(std::max(level, C{0}), C{1}) - 1) * hsv.b + 1) * hsv.c; };
  C sixth = hsv.a * 6;
  return {channel(std::fabs(sixth - 3) - 1), channel(2 - std::fabs(sixth - 2)), channel(2 - std::fabs(sixth - 4))};
}

// out = f(pixel), pixel by pixel of three channels: in blocks of pixels, taken apart into their channels.
template <typename TypeList, typename F>
void map_pixels(const Tensor& in, Tensor& out, const F& f) {
  dispatch(in.dtype(), TypeList{}, [&]<typename T>() {
    using C = Compute<T>;
    constexpr int64_t kBlock = 64;
    const T* from = in.flat<T>();
    T* to = out.flat<T>();
    parallel_for(in.num_elements() / 3, kElementGrain / 8, [&](int64_t begin, int64_t end) {
      C a[kBlock] = {}, b[kBlock] = {}, c[kBlock] = {};
      for (int64_t first = begin; first < end; first += kBlock) {
        const int64_t n = std::min(kBlock, end - first);
        const T* pixel = from + first * 3;
        for (int64_t i = 0; i < n; ++i) {
          a[i] = static_cast<C>(pixel[i * 3]);
          b[i] = static_cast<C>(pixel[i * 3 + 1]);
          c[i] = static_cast<C>(pixel[i * 3 + 2]);
        }
#pragma GCC ivdep
        for (int64_t i = 0; i < kBlock; ++i) {
          Color<C> color = f(Color<C>{a[i], b[i], c[i]});
          a[i] = color.a;
          b[i] = color.b;
          c[i] = color.c;
        }
        T* result = to + first * 3;
        for (int64_t i = 0; i < n; ++i) {
          result[i * 3] = static_cast<T>(a[i]);
          result[i * 3 + 1] = static_cast<T>(b[i]);
          result[i * 3 + 2] = static_cast<T>(c[i]);
        }
      }
    });
  });
}

void check_colors(const Tensor& images, int rank) {
  require(images.rank() >= rank, "input must be at least ", rank, "-D, got shape ", images.shape());
  require(images.dim(images.rank() - 1) == 3, "input must have 3 channels but instead has ",
          images.dim(images.rank() - 1), " channels: ", images.shape());
}

void rgb_to_hsv(Context& ctx) {
  check_colors(ctx.input(0), 1);
  Tensor& out = ctx.forward_or_allocate({0}, 0, ctx.input(0).shape());
  map_pixels<Floats>(ctx.input(0), out, [](const auto& color) { return to_hsv(color); });
}

void hsv_to_rgb(Context& ctx) {
  check_colors(ctx.input(0), 1);
  Tensor& out = ctx.forward_or_allocate({0}, 0, ctx.input(0).shape());
  map_pixels<Floats>(ctx.input(0), out, [](const auto& color) { return to_rgb(color); });
}

float checked_scalar(const Tensor& value, const char* what) {
  require(value.rank() == 0, what, " must be a scalar, got shape ", value.shape());
  return *value.flat<float>();
}

using Adjustable = Types<DType::float16, DType::float32>;

void adjust_hue(Context& ctx) {
  check_colors(ctx.input(0), 3);
  const float delta = checked_scalar(ctx.input(1), "delta");
  Tensor& out = ctx.forward_or_allocate({0}, 0, ctx.input(0).shape());
  map_pixels<Adjustable>(ctx.input(0), out, [=](const Color<float>& color) {
    Color<float> hsv = to_hsv(color);
    // In terms of the extremes, not of the saturation: colours of negative value keep their range.
    float low = std::min(color.a, std::min(color.b, color.c)), high = hsv.c;
    float hue = hsv.a + delta;
    Color<float> pure = to_rgb(Color<float>{hue - std::floor(hue), 1.0f, 1.0f});
    return Color<float>{low + (high - low) * pure.a, low + (high - low) * pure.b, low + (high - low) * pure.c};
  });
}

void adjust_saturation(Context& ctx) {
  check_colors(ctx.input(0), 3);
  const float scale = checked_scalar(ctx.input(1), "scale");
  Tensor& out = ctx.forward_or_allocate({0}, 0, ctx.input(0).shape());
  map_pixels<Adjustable>(ctx.input(0), out, [=](const Color<float>& color) {
    Color<float> hsv = to_hsv(color);
    hsv.b = std::min(1.0f, std::max(0.0f, hsv.b * scale));
    return to_rgb(hsv);
  });
}

void adjust_contrast(Context& ctx) {
  const Tensor& images = ctx.input(0);
  require(images.rank() >= 3, "input must be at least 3-D, got shape ", images.shape());
  const float factor = checked_scalar(ctx.input(1), "contrast_factor");
  int rank = images.rank();
  const int64_t batch = images.shape().product(0, rank - 3), pixels = images.dim(rank - 3) * images.dim(rank - 2);
  const int64_t channels = images.dim(rank - 1);
  Tensor& out = ctx.forward_or_allocate({0}, 0, images.shape());
  if (out.num_elements() == 0) return;
  // Several pixels side by side, with any number of channels, make loops that vectorize.
  const int64_t stripe = channels * std::max<int64_t>(1, 1024 / channels), total = pixels * channels;
  dispatch(images.dtype(), Adjustable{}, [&]<typename T>() {
    parallel_for(batch, 1, [&](int64_t begin, int64_t end) {
      std::vector<float> sums(static_cast<size_t>(stripe)), means(static_cast<size_t>(stripe));
      std::vector<double> totals(static_cast<size_t>(channels));
      for (int64_t image = begin; image < end; ++image) {
        const T* from = images.flat<T>() + image * total;
        T* to = out.flat<T>() + image * total;
        std::fill(totals.begin(), totals.end(), 0.0);
        // A float that counts a million pixels loses some of them: every now and then the sums go into doubles.
        for (int64_t block = 0; block < total; block += stripe * 64) {
          std::fill(sums.begin(), sums.end(), 0.0f);
          for (int64_t first = block; first < std::min(total, block + stripe * 64); first += stripe) {
            const int64_t n = std::min(stripe, total - first);
            float* __restrict sum = sums.data();
            for (int64_t i = 0; i < n; ++i) sum[i] += static_cast<float>(from[first + i]);
          }
          for (int64_t i = 0; i < stripe; ++i) totals[i % channels] += static_cast<double>(sums[i]);
        }
        for (int64_t i = 0; i < stripe; ++i)
          means[i] = static_cast<float>(totals[i % channels] / static_cast<double>(pixels));
        for (int64_t first = 0; first < total; first += stripe) {
          const int64_t n = std::min(stripe, total - first);
          const float* mean = means.data();
#pragma GCC ivdep
          for (int64_t i = 0; i < n; ++i)
            to[first + i] = static_cast<T>((static_cast<float>(from[first + i]) - mean[i]) * factor + mean[i]);
        }
      }
    });
  });
}

REGISTER(kernel("RGBToHSV").types("T", Floats{}).function<rgb_to_hsv>());
REGISTER(kernel("HSVToRGB").types("T", Floats{}).function<hsv_to_rgb>());
REGISTER(kernel("AdjustHue").types("T", Adjustable{}).function<adjust_hue>());
REGISTER(kernel("AdjustSaturation").types("T", Adjustable{}).function<adjust_saturation>());
REGISTER(kernel("AdjustContrastv2").types("T", Adjustable{}).function<adjust_contrast>());

}  // namespace
}  // namespace thalweg
