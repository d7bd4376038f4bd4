// The plane rotation that makes the second of two numbers zero.
#pragma once

#include <algorithm>
#include <cmath>

namespace thalweg::linear {

// c f + s g = r and c g - s f = 0, with c >= 0.
struct PlaneRotation {
  double c, s, r;
};
inline PlaneRotation rotation_of(double f, double g) {
  if (g == 0) return {1, 0, f};
  if (f == 0) return {0, std::copysign(1.0, g), std::fabs(g)};
  const double largest = std::max(std::fabs(f), std::fabs(g));
  if (largest < 1e-140) {  // The squares would leave the range.
    const double factor = 0x1p500;
    PlaneRotation scaled = rotation_of(f * factor, g * factor);
    scaled.r /= factor;
    return scaled;
  }
  const double size = std::sqrt(f * f + g * g), r = std::copysign(size, f);
  return {f / r, g / r, r};
}

}  // namespace thalweg::linear
