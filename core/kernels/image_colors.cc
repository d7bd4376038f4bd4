// Colours of images: RGBToHSV, HSVToRGB, AdjustHue, AdjustSaturation and AdjustContrastv2.
#include "kernels/elementwise.h"

namespace thalweg {
namespace {

template <typename C>
struct Color {
  C a, b, c;
};

// Hue as a part of the circle, in [0, 1); saturation; value. Grey has the hue 0.
template <typename C>
Color<C> to_hsv(const Color<C>& rgb) {
  C value = std::max(rgb.a, std::max(rgb.b, rgb.c)), range = value - std::min(rgb.a, std::min(rgb.b, rgb.c));
  C saturation = value > 0 ? range / value : C{0};
  if (!(range > 0)) return {C{0}, saturation, value};
  C unit = C{1} / (C{6} * range), hue;
  if (rgb.a == value)
    hue = unit * (rgb.b - rgb.c);
  else if (rgb.b == value)
    hue = unit * (rgb.c - rgb.a) + C{2} / C{6};
  else
    hue = unit * (rgb.a - rgb.b) + C{4} / C{6};
  return {hue < 0 ? hue + 1 : hue, saturation, value};
}

template <typename C>
Color<C> to_rgb(const Color<C>& hsv) {
  auto channel = [&](C level) { return ((std::clamp(level, C{0}, C{1}) - 1) * hsv.b + 1) * hsv.c; };
  C sixth = hsv.a * 6;
  return {channel(std::fabs(sixth - 3) - 1), channel(2 - std::fabs(sixth - 2)), channel(2 - std::fabs(sixth - 4))};
}

// out = f(pixel), pixel by pixel of three channels.
template <typename TypeList, typename F>
void map_pixels(const Tensor& in, Tensor& out, const F& f) {
  dispatch(in.dtype(), TypeList{}, [&]<typename T>() {
    using C = Compute<T>;
    const T* from = in.flat<T>();
    T* to = out.flat<T>();
    parallel_for(in.num_elements() / 3, kElementGrain / 8, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * 3; i < end * 3; i += 3) {
        Color<C> color = f(Color<C>{static_cast<C>(from[i]), static_cast<C>(from[i + 1]), static_cast<C>(from[i + 2])});
        to[i] = static_cast<T>(color.a);
        to[i + 1] = static_cast<T>(color.b);
        to[i + 2] = static_cast<T>(color.c);
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
  dispatch(images.dtype(), Adjustable{}, [&]<typename T>() {
    parallel_for(batch, 1, [&](int64_t begin, int64_t end) {
      std::vector<float> mean(static_cast<size_t>(channels)), block(static_cast<size_t>(channels));
      for (int64_t image = begin; image < end; ++image) {
        const T* from = images.flat<T>() + image * pixels * channels;
        T* to = out.flat<T>() + image * pixels * channels;
        std::fill(mean.begin(), mean.end(), 0.0f);
        // Sums of blocks: a float that counts a million pixels loses none of them.
        for (int64_t first = 0; first < pixels; first += 1024) {
          std::fill(block.begin(), block.end(), 0.0f);
          for (int64_t p = first; p < std::min(pixels, first + 1024); ++p)
            for (int64_t c = 0; c < channels; ++c) block[c] += static_cast<float>(from[p * channels + c]);
          for (int64_t c = 0; c < channels; ++c) mean[c] += block[c] / static_cast<float>(pixels);
        }
        for (int64_t p = 0; p < pixels; ++p)
          for (int64_t c = 0; c < channels; ++c)
            to[p * channels + c] =
                static_cast<T>((static_cast<float>(from[p * channels + c]) - mean[c]) * factor + mean[c]);
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
