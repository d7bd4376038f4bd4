// Elementary functions of double as vector code; the contract is that of vector_math.h, in double.
//
// The polynomials are the series themselves, cut off where the next term is below the last place.
#pragma once

#include "compute/elementwise/vector_math.h"

namespace thalweg::vector_math {

THALWEG_VECTOR double double_from(uint64_t bits) { return __builtin_bit_cast(double, bits); }
THALWEG_VECTOR uint64_t bits_of(double x) { return __builtin_bit_cast(uint64_t, x); }
THALWEG_VECTOR double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }

constexpr double kRounder64 = 6755399441055744.0;
constexpr double kInfinity64 = std::numeric_limits<double>::infinity();
constexpr double kNan64 = std::numeric_limits<double>::quiet_NaN();
constexpr double kLogTwoHigh = 0.6931471803691238, kLogTwoLow = 1.9082149292705877e-10;

// x = n ln 2 + r with |r| <= ln(2) / 2; n also as an integer.
struct ExpReduction64 {
  double r;
  uint64_t n;
};
THALWEG_VECTOR ExpReduction64 reduce_exp(double x) {
  double shifted = fma(x, 1.4426950408889634, kRounder64);
  double n = shifted - kRounder64;
  double r = fma(n, -kLogTwoHigh, x);
  return {fma(n, -kLogTwoLow, r), bits_of(shifted) - bits_of(kRounder64)};
}

// e^r - 1 for a reduced argument.
THALWEG_VECTOR double expm1_reduced(double r) {
  double p = fma(1.6059043836821613e-10, r, 2.08767569878681e-09);
  p = fma(p, r, 2.505210838544172e-08);
  p = fma(p, r, 2.755731922398589e-07);
  p = fma(p, r, 2.7557319223985893e-06);
  p = fma(p, r, 2.48015873015873e-05);
  p = fma(p, r, 0.0001984126984126984);
  p = fma(p, r, 0.001388888888888889);
  p = fma(p, r, 0.008333333333333333);
  p = fma(p, r, 0.041666666666666664);
  p = fma(p, r, 0.16666666666666666);
  p = fma(p, r, 0.5);
  return fma(p, r * r, r);
}

// 2^n for n in the range of normal numbers.
THALWEG_VECTOR double power_of_two(uint64_t n) { return double_from((n + 1023u) << 52); }

THALWEG_VECTOR double exp(double x) {
  double y = x < -746.0 ? -746.0 : x;
  y = y > 710.0 ? 710.0 : y;
  auto [r, n] = reduce_exp(y);
  // Two factors, because 2^n alone leaves the normal range where the result is still a number. The half is taken of a
  // number made positive: vectors of 64 bits have no signed shift.
  uint64_t half = ((n + 4096u) >> 1) - 2048u;
  return (expm1_reduced(r) + 1.0) * power_of_two(half) * power_of_two(n - half);
}

THALWEG_VECTOR double expm1(double x) {
  double y = x < -40.0 ? -40.0 : x;
  y = y > 710.0 ? 710.0 : y;
  auto [r, n] = reduce_exp(y);
  double p = expm1_reduced(r);
  double scale = power_of_two(n - 1u);  // Half of it, because 2^1024 is no double.
  double scaled = 2.0 * fma(p, scale, scale - 0.5);
  double result = n == 0 ? p : scaled;
  return x == 0.0 ? x : result;
}

// log(x) + c for a normal x > 0 and a small correction c.
THALWEG_VECTOR double log_normal(double x, double exponent_offset, double c) {
  constexpr uint64_t root_half = 0x3fe6a09e667f3bcdu, mantissa = 0x000fffffffffffffu;
  uint64_t bits = bits_of(x) - root_half;
  // The exponent as a double without a conversion, which 64-bit integers lack: it becomes the low bits of 2^52.
  uint64_t exponent = (bits + (uint64_t{1024} << 52)) >> 52;
  double e = double_from(exponent | 0x4330000000000000u) - (4503599627370496.0 + 1024.0) + exponent_offset;
  double f = double_from((bits & mantissa) + root_half) - 1.0;
  double s = f / (2.0 + f), z = s * s;
  double p = fma(0.08695652173913043, z, 0.09523809523809523);
  p = fma(p, z, 0.10526315789473684);
  p = fma(p, z, 0.11764705882352941);
  p = fma(p, z, 0.13333333333333333);
  p = fma(p, z, 0.15384615384615385);
  p = fma(p, z, 0.18181818181818182);
  p = fma(p, z, 0.2222222222222222);
  p = fma(p, z, 0.2857142857142857);
  p = fma(p, z, 0.4);
  p = fma(p, z, 0.6666666666666666);
  double half_square = 0.5 * f * f;
  double rest = s * (half_square + p * z);
  return fma(e, kLogTwoHigh, f - (half_square - (rest + fma(e, kLogTwoLow, c))));
}

THALWEG_VECTOR double log(double x) {
  bool tiny = x < 2.2250738585072014e-308;
  double scaled = tiny ? x * 18014398509481984.0 : x;
  double result = log_normal(scaled, tiny ? -54.0 : 0.0, 0.0);
  result = x == 0.0 ? -kInfinity64 : result;
  result = x < 0.0 ? kNan64 : result;
  return x < kInfinity64 ? result : x;  // Also for NaN.
}

THALWEG_VECTOR double log1p(double x) {
  double u = 1.0 + x;
  double lost = x >= 1.0 ? 1.0 - (u - x) : x - (u - 1.0);
  double result = log_normal(u, 0.0, lost / u);
  result = x == -1.0 ? -kInfinity64 : result;
  result = x < -1.0 ? kNan64 : result;
  result = (x < 1e-16) & (x > -1e-16) ? x : result;
  return (x < kInfinity64) & (x != 0.0) ? result : x;
}

THALWEG_VECTOR double tanh(double x) {
  double a = std::fabs(x);
  double e = expm1(2.0 * (a > 20.0 ? 20.0 : a));
  double result = e / (e + 2.0);
  return std::copysign(x == x ? result : x, x);
}

// x = q pi/2 + r with |r| <= pi/4, for |x| <= kTrigLimit64: pi/2 has a hundred bits more than x needs there.
constexpr double kTrigLimit64 = 1048576.0;
struct TrigReduction64 {
  double r;
  uint64_t quadrant;
};
THALWEG_VECTOR TrigReduction64 reduce_trig(double x) {
  double shifted = fma(x, 0.6366197723675814, kRounder64);
  double q = shifted - kRounder64;
  double r = fma(q, -1.5707963267948966, x);
  r = fma(q, -6.123233995736766e-17, r);
  return {fma(q, 1.4973849048591833e-33, r), bits_of(shifted)};
}
THALWEG_VECTOR double sin_reduced(double r) {
  double z = r * r;
  double p = fma(2.8114572543455206e-15, z, -7.647163731819816e-13);
  p = fma(p, z, 1.6059043836821613e-10);
  p = fma(p, z, -2.505210838544172e-08);
  p = fma(p, z, 2.7557319223985893e-06);
  p = fma(p, z, -0.0001984126984126984);
  p = fma(p, z, 0.008333333333333333);
  p = fma(p, z, -0.16666666666666666);
  return fma(p * z, r, r);
}
THALWEG_VECTOR double cos_reduced(double r) {
  double z = r * r;
  double p = fma(-1.5619206968586225e-16, z, 4.779477332387385e-14);
  p = fma(p, z, -1.1470745597729725e-11);
  p = fma(p, z, 2.08767569878681e-09);
  p = fma(p, z, -2.755731922398589e-07);
  p = fma(p, z, 2.48015873015873e-05);
  p = fma(p, z, -0.001388888888888889);
  p = fma(p, z, 0.041666666666666664);
  p = fma(p, z, -0.5);
  return fma(p, z, 1.0);
}

THALWEG_VECTOR double sin(double x) {
  auto [r, quadrant] = reduce_trig(x);
  double value = (quadrant & 1u) != 0 ? cos_reduced(r) : sin_reduced(r);
  double result = double_from(bits_of(value) ^ ((quadrant & 2u) << 62));
  return x == 0.0 ? x : result;
}

THALWEG_VECTOR double cos(double x) {
  auto [r, quadrant] = reduce_trig(x);
  double value = (quadrant & 1u) != 0 ? sin_reduced(r) : cos_reduced(r);
  return double_from(bits_of(value) ^ (((quadrant + 1u) & 2u) << 62));
}

THALWEG_VECTOR double tan(double x) {
  auto [r, quadrant] = reduce_trig(x);
  double s = sin_reduced(r), c = cos_reduced(r);
  bool odd = (quadrant & 1u) != 0;
  double result = (odd ? -c : s) / (odd ? s : c);
  return x == 0.0 ? x : result;
}

THALWEG_VECTOR double sigmoid(double x) {
  double e = exp(-std::fabs(x));
  double numerator = x < 0.0 ? e : 1.0;
  return numerator / (1.0 + e);
}

THALWEG_VECTOR double softplus(double x) {
  double positive = x > 0.0 ? x : 0.0;
  double result = positive + log1p(exp(-std::fabs(x)));
  return x == x ? result : x;
}

}  // namespace thalweg::vector_math
