// ResizeBicubic and its gradient.
#include "compute/images/resize.h"

namespace thalweg {
namespace {

constexpr int64_t kSteps = 1024;

// The cubic convolution kernel with parameter `a` at distance `x`: within one pixel, and between one and two.
float near_weight(double a, double x) { return static_cast<float>(((a + 2) * x - (a + 3)) * x * x + 1); }
float far_weight(double a, double x) { return static_cast<float>(((a * x - 5 * a) * x + 8 * a) * x - 4 * a); }

}  // namespace

Taps<4> bicubic_taps(int64_t in, int64_t out, const ResizeOptions& options) {
  Taps<4> taps(out);
  float scale = options.scale(in, out);
  // Pixels with centres use Keys' own parameter and leave out neighbours beyond the edge; the older form repeats them.
  const bool keys = options.half_pixel_centers;
  const double a = keys ? -0.5 : -0.75;
  for (int64_t i = 0; i < out; ++i) {
    float at = options.position(i, scale);
    auto base = static_cast<int64_t>(std::floor(at));
    float step = static_cast<float>(std::lrint((at - static_cast<float>(base)) * static_cast<float>(kSteps)));
    double x = static_cast<double>(step) / kSteps;
    std::array<float, 4> weight = {far_weight(a, x + 1), near_weight(a, x), near_weight(a, 1 - x),
                                   far_weight(a, 2 - x)};
    std::array<int32_t, 4> index{};
    for (int64_t k = 0; k < 4; ++k) {
      int64_t wanted = base - 1 + k, inside = std::clamp<int64_t>(wanted, 0, in - 1);
      index[k] = static_cast<int32_t>(inside);
      if (keys && wanted != inside) weight[k] = 0;
    }
    float sum = weight[0] + weight[1] + weight[2] + weight[3];
    if (keys && std::fabs(sum) >= 1000.0f * std::numeric_limits<float>::min())
      for (float& w : weight) w /= sum;
    taps.index[i] = index;
    taps.weight[i] = weight;
  }
  return taps;
}

namespace {

REGISTER(kernel("ResizeBicubic").types("T", Pixels{}).make<Resize<4, bicubic_taps>>());
REGISTER(kernel("ResizeBicubicGrad").types("T", WideFloats{}).make<ResizeGrad<4, bicubic_taps, WideFloats>>());

}  // namespace
}  // namespace thalweg
