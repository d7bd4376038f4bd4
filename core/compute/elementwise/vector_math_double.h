// Elementary functions of double as vector code; the contract is that of vector_math.h, in double.
//
// The coefficients are weighted least-maximum fits, with an error below a hundredth of the last place.
#pragma once

#include "compute/elementwise/vector_math.h"

namespace thalweg::vector_math {

constexpr double kRounder64 = 6755399441055744.0;
constexpr double kInfinity64 = std::numeric_limits<double>::infinity();
constexpr double kNan64 = std::numeric_limits<double>::quiet_NaN();
constexpr double kLogTwoHigh = 0.6931471803691238, kLogTwoLow = 1.9082149292705877e-10;

// x = n ln 2 + r with |r| <= ln(2) / 2; n also as an integer.
template <Double V>
THALWEG_VECTOR ExpReduction<V> reduce_exp(V x) {
  V shifted = fma(x, 1.4426950408889634, kRounder64);
  V n = shifted - kRounder64;
  V r = fma(n, -kLogTwoHigh, x);
  return {fma(n, -kLogTwoLow, r), to_bits(shifted) - to_bits(kRounder64)};
}

// e^r - 1 for a reduced argument.
template <Double V>
THALWEG_VECTOR V expm1_reduced(V r) {
  V p = fma(V(2.5000067288451373e-08), r, 2.7630234613441115e-07);
  p = fma(p, r, 2.7557586280707893e-06);
  p = fma(p, r, 2.480149313433361e-05);
  p = fma(p, r, 0.0001984126950676625);
  p = fma(p, r, 0.0013888888943599362);
  p = fma(p, r, 0.008333333333494338);
  p = fma(p, r, 0.04166666666653026);
  p = fma(p, r, 0.16666666666666413);
  p = fma(p, r, 0.5000000000000011);
  return fma(p, r * r, r);
}

// 2^n for n in the range of normal numbers.
template <Double V>
THALWEG_VECTOR V power_of_two(Bits<V> n) {
  return from_bits(shift_left(n + 1023u, 52));
}

template <Double V>
THALWEG_VECTOR V exp(V x) {
  V y = select(x < -746.0, V(-746.0), x);
  y = select(y > 710.0, V(710.0), y);
  auto [r, n] = reduce_exp(y);
  // Two factors, because 2^n alone leaves the normal range where the result is still a number. The half is taken of a
  // number made positive: vectors of 64 bits have no signed shift.
  Bits<V> half = shift_right(n + 4096u, 1) - 2048u;
  return (expm1_reduced(r) + 1.0) * power_of_two<V>(half) * power_of_two<V>(n - half);
}

template <Double V>
THALWEG_VECTOR V expm1(V x) {
  V y = select(x < -40.0, V(-40.0), x);
  y = select(y > 710.0, V(710.0), y);
  auto [r, n] = reduce_exp(y);
  V p = expm1_reduced(r);
  V scale = power_of_two<V>(n - 1u);  // Half of it, because 2^1024 is no double.
  V scaled = 2.0 * fma(p, scale, scale - 0.5);
  V result = select(n == 0u, p, scaled);
  return select(x == 0.0, x, result);
}

// log(x) + c for a normal x > 0 and a small correction c.
template <Double V>
THALWEG_VECTOR V log_normal(V x, V exponent_offset, V c) {
  constexpr uint64_t root_half = 0x3fe6a09e667f3bcdu, mantissa = 0x000fffffffffffffu;
  Bits<V> bits = to_bits(x) - root_half;
  // The exponent as a double without a conversion, which 64-bit integers lack: it becomes the low bits of 2^52.
  Bits<V> exponent = shift_right(bits + (uint64_t{1024} << 52), 52);
  V e = from_bits(exponent | 0x4330000000000000u) - (4503599627370496.0 + 1024.0) + exponent_offset;
  V f = from_bits((bits & mantissa) + root_half) - 1.0;
  V s = f / (2.0 + f), z = s * s;
  V p = fma(V(0.1479537742213672), z, 0.15314109659503947);
  p = fma(p, z, 0.18183561929781775);
  p = fma(p, z, 0.22222198621263062);
  p = fma(p, z, 0.2857142874189507);
  p = fma(p, z, 0.3999999999941704);
  p = fma(p, z, 0.6666666666666734);
  V half_square = 0.5 * f * f;
  V rest = s * (half_square + p * z);
  return fma(e, kLogTwoHigh, f - (half_square - (rest + fma(e, kLogTwoLow, c))));
}

template <Double V>
THALWEG_VECTOR V log(V x) {
  auto tiny = x < 2.2250738585072014e-308;
  V scaled = select(tiny, x * 18014398509481984.0, x);
  V result = log_normal(scaled, select(tiny, V(-54.0), 0.0), V(0.0));
  result = select(x == 0.0, V(-kInfinity64), result);
  result = select(x < 0.0, V(kNan64), result);
  return select(x < kInfinity64, result, x);  // Also for NaN.
}

template <Double V>
THALWEG_VECTOR V log1p(V x) {
  V u = 1.0 + x;
  V lost = select(x >= 1.0, 1.0 - (u - x), x - (u - 1.0));
  V result = log_normal(u, V(0.0), lost / u);
  result = select(x == -1.0, V(-kInfinity64), result);
  result = select(x < -1.0, V(kNan64), result);
  result = select((x < 1e-16) & (x > -1e-16), x, result);
  return select((x < kInfinity64) & (x != 0.0), result, x);
}

template <Double V>
THALWEG_VECTOR V tanh(V x) {
  V a = fabs(x);
  V e = expm1(2.0 * select(a > 20.0, V(20.0), a));
  V result = e / (e + 2.0);
  return copysign(select(x == x, result, x), x);
}

template <Double V>
THALWEG_VECTOR V sigmoid(V x) {
  V e = exp(-fabs(x));
  return select(x < 0.0, e, 1.0) / (1.0 + e);
}

template <Double V>
THALWEG_VECTOR V softplus(V x) {
  V positive = select(x > 0.0, x, 0.0);
  V result = positive + log1p(exp(-fabs(x)));
  return select(x == x, result, x);
}

}  // namespace thalweg::vector_math
