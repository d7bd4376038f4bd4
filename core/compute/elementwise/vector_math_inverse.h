// Inverse trigonometric and hyperbolic functions of float as vector code; the contract is that of vector_math.h.
#pragma once

#include "compute/elementwise/vector_math.h"

namespace thalweg::vector_math {

// atan(t) for |t| <= tan(pi / 8), as t + the rest.
THALWEG_VECTOR float atan_rest(float t) {
  float z = t * t;
  float p = fma(-0.06075361371040344f, z, 0.10592719912528992f);
  p = fma(p, z, -0.14243391156196594f);
  p = fma(p, z, 0.19998463988304138f);
  p = fma(p, z, -0.33333316445350647f);
  return p * z * t;
}

constexpr float kTanEighth = 0.41421356f, kTanThreeEighths = 2.41421356f;
constexpr float kHalfPi = 1.57079633f, kHalfPiRest = -4.37113883e-08f;  // their sum is pi / 2 to 50 bits

// Around 0, 1 or infinity, whichever is nearest: atan(a) = c + atan((a - tan c) / (1 + a tan c)).
THALWEG_VECTOR float atan(float x) {
  float a = std::fabs(x);
  bool far = a > kTanThreeEighths, middle = a > kTanEighth;
  float numerator = far ? -1.0f : middle ? a - 1.0f : a;
  float denominator = far ? a : middle ? a + 1.0f : 1.0f;
  float base = far ? kHalfPi : middle ? 0.5f * kHalfPi : 0.0f;
  float base_rest = far ? kHalfPiRest : middle ? 0.5f * kHalfPiRest : 0.0f;
  float t = numerator / denominator;
  return std::copysign(base + (t + (atan_rest(t) + base_rest)), x);
}

// The angle of the point (x, y), with the signs of zeros and the corners at infinity of the standard library.
THALWEG_VECTOR float atan2(float y, float x) {
  float ax = std::fabs(x), ay = std::fabs(y);
  bool steep = ay > ax;
  float numerator = steep ? ax : ay, denominator = steep ? ay : ax;
  float ratio = numerator / denominator;
  ratio = numerator == denominator ? 1.0f : ratio;  // also of two infinities
  ratio = denominator == 0.0f ? 0.0f : ratio;
  bool middle = ratio > kTanEighth;
  float t = middle ? (ratio - 1.0f) / (ratio + 1.0f) : ratio;
  float base = middle ? 0.5f * kHalfPi : 0.0f, base_rest = middle ? 0.5f * kHalfPiRest : 0.0f;
  // The angle is turn + sign * (base + t + ...): the large terms are added last.
  float rest = t + (atan_rest(t) + base_rest);
  base = steep ? kHalfPi - base : base;
  rest = steep ? kHalfPiRest - rest : rest;
  bool back = to_bits(x) >> 31;
  float angle = back ? (2.0f * kHalfPi - base) + (2.0f * kHalfPiRest - rest) : base + rest;
  angle = (x == x) & (y == y) ? angle : kNan;
  return std::copysign(angle, y);
}

// asin(s) for |s| <= 1/2, from its square, as s + the rest.
THALWEG_VECTOR float asin_rest(float s, float z) {
  float p = fma(0.04223056882619858f, z, 0.02414097636938095f);
  p = fma(p, z, 0.04547834396362305f);
  p = fma(p, z, 0.07495232671499252f);
  p = fma(p, z, 0.16666753590106964f);
  return p * z * s;
}

THALWEG_VECTOR float asin(float x) {
  float a = std::fabs(x);
  bool large = a > 0.5f;
  float z = large ? 0.5f * (1.0f - a) : a * a;  // NaN stays NaN, and a > 1 gives one.
  float s = large ? std::sqrt(z) : a;
  float rest = asin_rest(s, z);
  float result = large ? kHalfPi - 2.0f * (s + (rest - 0.5f * kHalfPiRest)) : s + rest;
  return std::copysign(result, x);
}

THALWEG_VECTOR float acos(float x) {
  float a = std::fabs(x);
  bool large = a > 0.5f;
  float z = large ? 0.5f * (1.0f - a) : a * a;
  float s = large ? std::sqrt(z) : x;
  float rest = asin_rest(s, z);
  float twice = 2.0f * (s + rest);
  float outside = x < 0.0f ? 2.0f * kHalfPi - (twice - 2.0f * kHalfPiRest) : twice;
  return large ? outside : kHalfPi - (s + (rest - kHalfPiRest));
}

THALWEG_VECTOR float sinh(float x) {
  float a = std::fabs(x);
  float e = expm1(a > 40.0f ? 40.0f : a);
  float near = 0.5f * (e + e / (e + 1.0f));
  float root = exp(0.5f * a);  // e^a alone overflows before its half does.
  float far = (0.5f * root) * root;
  float result = a > 40.0f ? far : near;
  result = a < 1e-4f ? a : result;
  return std::copysign(x == x ? result : x, x);
}

THALWEG_VECTOR float cosh(float x) {
  float a = std::fabs(x);
  float e = exp(a > 40.0f ? 40.0f : a);
  float near = 0.5f * e + 0.5f / e;
  float root = exp(0.5f * a);
  float far = (0.5f * root) * root;
  float result = a > 40.0f ? far : near;
  return x == x ? result : x;
}

constexpr float kLogTwo = 0.693147182f;

THALWEG_VECTOR float asinh(float x) {
  float a = std::fabs(x);
  float b = a > 1e4f ? 1e4f : a, square = b * b;
  float near = log1p(b + square / (1.0f + std::sqrt(square + 1.0f)));
  float result = a > 1e4f ? log(a) + kLogTwo : near;
  result = a < 1e-4f ? a : result;
  return std::copysign(x == x ? result : x, x);
}

THALWEG_VECTOR float acosh(float x) {
  float b = x > 1e4f ? 1e4f : x, t = b - 1.0f;
  float near = log1p(t + std::sqrt(t * (t + 2.0f)));
  float result = x > 1e4f ? log(x) + kLogTwo : near;
  return x >= 1.0f ? result : kNan;
}

THALWEG_VECTOR float atanh(float x) {
  float a = std::fabs(x);
  float result = 0.5f * log1p((a + a) / (1.0f - a));
  result = a < 1e-4f ? a : result;
  return std::copysign(x == x ? result : x, x);
}

}  // namespace thalweg::vector_math
