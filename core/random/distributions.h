// From random bits to numbers: uniform on [0, 1), uniform integers, normal and truncated normal.
//
// Each distribution turns a block of four words into `kCount` values, with the same bits of the same words as
// TensorFlow, so that a seed gives the same stream there and here.
#pragma once

#include <cmath>
#include <numbers>

#include "random/philox.h"
#include "tensor/dtype.h"

namespace thalweg {

// The lowest mantissa bits as a number in [1, 2), minus one: every value is a multiple of the type's epsilon.
inline float uniform_float(uint32_t x) { return __builtin_bit_cast(float, 0x3f800000u | (x & 0x7fffffu)) - 1.0f; }
inline double uniform_double(uint32_t high, uint32_t low) {
  uint64_t mantissa = static_cast<uint64_t>(high & 0xfffffu) << 32 | low;
  return __builtin_bit_cast(double, 0x3ff0000000000000u | mantissa) - 1.0;
}

template <typename T>
inline T uniform(uint32_t x) {
  if constexpr (std::is_same_v<T, half>)
    return half(static_cast<float>(x & 0x3ffu) * 0x1p-10f);
  else if constexpr (std::is_same_v<T, bfloat16>)
    return bfloat16(static_cast<float>(x & 0x7fu) * 0x1p-7f);
  else
    return uniform_float(x);
}

// Two independent normal values from two uniform ones (Box and Muller). The bound keeps the logarithm finite.
inline void box_muller(float u, float v, float* a, float* b) {
  float radius = std::sqrt(-2.0f * std::log(std::max(u, 1.0e-7f)));
  float angle = static_cast<float>(2.0 * std::numbers::pi * static_cast<double>(v));
  *a = std::sin(angle) * radius;
  *b = std::cos(angle) * radius;
}
inline void box_muller(double u, double v, double* a, double* b) {
  double radius = std::sqrt(-2.0 * std::log(std::max(u, 1.0e-7)));
  double angle = 2.0 * std::numbers::pi * v;
  *a = std::sin(angle) * radius;
  *b = std::cos(angle) * radius;
}

template <typename T>
struct UniformReal {
  using Value = T;
  static constexpr int kCount = std::is_same_v<T, double> ? 2 : 4;
  void operator()(const Philox::Block& x, T* out) const {
    if constexpr (std::is_same_v<T, double>) {
      out[0] = uniform_double(x[0], x[1]);
      out[1] = uniform_double(x[2], x[3]);
    } else {
      for (int i = 0; i < 4; ++i) out[i] = uniform<T>(x[i]);
    }
  }
};

// Integers in [low, low + range), by remainder: for ranges near the full width some values are likelier than others.
template <typename T>
struct UniformInteger {
  using Value = T;
  using Bits = std::make_unsigned_t<T>;
  static constexpr int kCount = sizeof(T) == 8 ? 2 : 4;
  Bits low, range;
  void operator()(const Philox::Block& x, T* out) const {
    if constexpr (sizeof(T) == 8) {
      for (int i = 0; i < 2; ++i)
        out[i] = static_cast<T>(low + (x[2 * i] | static_cast<uint64_t>(x[2 * i + 1]) << 32) % range);
    } else {
      for (int i = 0; i < 4; ++i) out[i] = static_cast<T>(low + x[i] % range);
    }
  }
};

template <typename T>
struct Normal {
  using Value = T;
  static constexpr int kCount = std::is_same_v<T, double> ? 2 : 4;
  void operator()(const Philox::Block& x, T* out) const {
    if constexpr (std::is_same_v<T, double>) {
      box_muller(uniform_double(x[0], x[1]), uniform_double(x[2], x[3]), &out[0], &out[1]);
    } else {
      for (int i = 0; i < 4; i += 2) {
        float a, b;
        box_muller(uniform_float(x[i]), uniform_float(x[i + 1]), &a, &b);
        out[i] = static_cast<T>(a);
        out[i + 1] = static_cast<T>(b);
      }
    }
  }
};

// Normal values within two standard deviations, by rejection: takes as many words as it needs.
template <typename T>
struct TruncatedNormal {
  using Value = T;
  static constexpr int kCount = std::is_same_v<T, double> ? 2 : 4;
  void operator()(PhiloxWords& words, T* out) const {
    using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
    int found = 0;
    while (true) {
      C pair[2];
      uint32_t x0 = words(), x1 = words();
      if constexpr (std::is_same_v<T, double>) {
        uint32_t x2 = words(), x3 = words();
        box_muller(uniform_double(x0, x1), uniform_double(x2, x3), &pair[0], &pair[1]);
      } else {
        box_muller(uniform_float(x0), uniform_float(x1), &pair[0], &pair[1]);
      }
      for (C value : pair) {
        if (!(std::abs(value) < C(2))) continue;
        out[found++] = static_cast<T>(value);
        if (found == kCount) return;
      }
    }
  }
};

}  // namespace thalweg
