// Elementary functions of float, written so that the compiler turns a loop over them into vector code.
//
// Contract: no branches, no calls, no tables; NaN gives NaN, infinities and denormals are right, and the error stays
// within about two units in the last place of the float64 result (tests/native/test_vector_math.py measures it over
// the whole range). Those that are templates can also be recorded, for machine code made at run time
// (code/recorded.h). The coefficients are weighted least-maximum fits made for these intervals.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "code/recorded.h"

// A loop is vectorized only if all it calls is inlined, however large.
#define THALWEG_VECTOR [[gnu::always_inline]] inline

namespace thalweg::vector_math {

using code::Plain, code::Recorded;
using std::copysign, std::fabs, std::sqrt;

// float, or Recorded<float>; and double.
template <typename V>
concept Single = std::is_same_v<Plain<V>, float>;
template <typename V>
concept Double = std::is_same_v<Plain<V>, double>;

// The operations on these that are not operators.
template <typename V>
using Bits = std::conditional_t<code::is_recorded<V>, Recorded<code::SameWidth<Plain<V>>>,
                                std::make_unsigned_t<code::SameWidth<Plain<V>>>>;
THALWEG_VECTOR float from_bits(uint32_t bits) { return __builtin_bit_cast(float, bits); }
THALWEG_VECTOR double from_bits(uint64_t bits) { return __builtin_bit_cast(double, bits); }
THALWEG_VECTOR uint32_t to_bits(float x) { return __builtin_bit_cast(uint32_t, x); }
THALWEG_VECTOR uint64_t to_bits(double x) { return __builtin_bit_cast(uint64_t, x); }
THALWEG_VECTOR float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
THALWEG_VECTOR double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
template <std::unsigned_integral T>
THALWEG_VECTOR T shift_left(T bits, int count) {
  return bits << count;
}
template <std::unsigned_integral T>
THALWEG_VECTOR T shift_right(T bits, int count) {
  return bits >> count;
}
THALWEG_VECTOR uint32_t shift_right_signed(uint32_t bits, int count) {
  return static_cast<uint32_t>(static_cast<int32_t>(bits) >> count);
}
// The value of bits that are a signed integer.
THALWEG_VECTOR float integer_value(uint32_t bits) { return static_cast<float>(static_cast<int32_t>(bits)); }
template <typename T>
THALWEG_VECTOR T select(bool truth, T a, std::type_identity_t<T> b) {
  return truth ? a : b;
}

inline Recorded<float> from_bits(Recorded<int32_t> bits) { return Recorded<float>::of(bits.value); }
inline Recorded<double> from_bits(Recorded<int64_t> bits) { return Recorded<double>::of(bits.value); }
inline Recorded<int32_t> to_bits(Recorded<float> x) { return Recorded<int32_t>::of(x.value); }
inline Recorded<int64_t> to_bits(Recorded<double> x) { return Recorded<int64_t>::of(x.value); }
template <typename T>
Recorded<T> fma(Recorded<T> a, std::type_identity_t<Recorded<T>> b, std::type_identity_t<Recorded<T>> c) {
  return code::record(code::Opcode::fma, a, b.value, c.value);
}
template <typename T, std::floating_point U>
Recorded<T> fma(U a, Recorded<T> b, std::type_identity_t<Recorded<T>> c) {
  return fma(Recorded<T>(a), b, c);
}
template <typename T>
Recorded<T> shift_left(Recorded<T> bits, int count) {
  return code::record(code::Opcode::shift_left, bits, code::kNone, code::kNone, count);
}
template <typename T>
Recorded<T> shift_right(Recorded<T> bits, int count) {
  return code::record(code::Opcode::shift_right, bits, code::kNone, code::kNone, count);
}
inline Recorded<int32_t> shift_right_signed(Recorded<int32_t> bits, int count) {
  return code::record(code::Opcode::shift_right_signed, bits, code::kNone, code::kNone, count);
}
inline Recorded<float> integer_value(Recorded<int32_t> bits) {
  return Recorded<float>::of(
      code::Recording::current().add({code::Opcode::convert, code::Lane::float32, bits.value, code::kNone, code::kNone,
                                      static_cast<int64_t>(code::Lane::int32)}));
}

// The bits as a signed integer of the same width: below zero if the sign is set, also that of -0 or NaN.
template <typename T>
THALWEG_VECTOR auto signed_bits(T x) {
  return __builtin_bit_cast(code::SameWidth<T>, x);
}
template <typename T>
Recorded<code::SameWidth<T>> signed_bits(Recorded<T> x) {
  return Recorded<code::SameWidth<T>>::of(x.value);
}

// Adding it rounds to an integer, which then stands in the low bits of the sum.
constexpr float kRounder = 12582912.0f;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// x = n ln 2 + r with |r| <= ln(2) / 2; n also as an integer.
template <typename V>
struct ExpReduction {
  V r;
  Bits<V> n;
};
template <Single V>
THALWEG_VECTOR ExpReduction<V> reduce_exp(V x) {
  V shifted = fma(x, 1.44269504f, kRounder);
  V n = shifted - kRounder;
  V r = fma(n, -0.693145752f, x);
  return {fma(n, -1.42860677e-6f, r), to_bits(shifted) - to_bits(kRounder)};
}

// e^r - 1 for a reduced argument.
template <Single V>
THALWEG_VECTOR V expm1_reduced(V r) {
  V p = fma(V(0.000199137066f), r, 0.00139411166f);
  p = fma(p, r, 0.00833327416f);
  p = fma(p, r, 0.041666355f);
  p = fma(p, r, 0.166666672f);
  p = fma(p, r, 0.5f);
  return fma(p, r * r, r);
}

// 2^n for n in the range of normal numbers.
template <Single V>
THALWEG_VECTOR V power_of_two(Bits<V> n) {
  return from_bits(shift_left(n + 127u, 23));
}

template <Single V>
THALWEG_VECTOR V exp(V x) {
  x = select(x < -104.0f, V(-104.0f), x);
  x = select(x > 89.0f, V(89.0f), x);
  auto [r, n] = reduce_exp(x);
  // Two factors, because 2^n alone leaves the normal range where the result is still a number.
  Bits<V> half = shift_right_signed(n, 1);
  return (expm1_reduced(r) + 1.0f) * power_of_two<V>(half) * power_of_two<V>(n - half);
}

template <Single V>
THALWEG_VECTOR V expm1(V x) {
  V y = select(x < -20.0f, V(-20.0f), x);
  y = select(y > 89.0f, V(89.0f), y);
  auto [r, n] = reduce_exp(y);
  V p = expm1_reduced(r);
  V scale = power_of_two<V>(n - 1u);  // Half of it, because 2^128 is no float.
  V scaled = 2.0f * fma(p, scale, scale - 0.5f);
  V result = select(n == 0, p, scaled);
  return select(x == 0.0f, x, result);
}

// log(1 + f) for 1 + f in [sqrt(1/2), sqrt(2)], as f + the rest.
template <Single V>
THALWEG_VECTOR V log1p_rest(V f) {
  V p = fma(V(-0.076355882f), f, 0.127633005f);
  p = fma(p, f, -0.131605953f);
  p = fma(p, f, 0.142015576f);
  p = fma(p, f, -0.166232973f);
  p = fma(p, f, 0.200012326f);
  p = fma(p, f, -0.250008225f);
  p = fma(p, f, 0.333333313f);
  V square = f * f;
  return fma(p, square * f, -0.5f * square);
}

// log(x) + c for a normal x > 0 and a small correction c.
template <Single V>
THALWEG_VECTOR V log_normal(V x, V exponent_offset, V c) {
  Bits<V> bits = to_bits(x) - 0x3f3504f3u;
  V e = integer_value(shift_right_signed(bits, 23)) + exponent_offset;
  V f = from_bits((bits & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
  V low = fma(e, 1.42860677e-6f, log1p_rest(f) + c);
  return fma(e, 0.693145752f, low + f);
}

template <Single V>
THALWEG_VECTOR V log(V x) {
  auto tiny = x < 1.17549435e-38f;
  V scaled = select(tiny, x * 8388608.0f, x);
  V result = log_normal(scaled, select(tiny, V(-23.0f), 0.0f), V(0.0f));
  result = select(x == 0.0f, V(-kInfinity), result);
  result = select(x < 0.0f, V(kNan), result);
  return select(x < kInfinity, result, x);  // Also for NaN.
}

template <Single V>
THALWEG_VECTOR V log1p(V x) {
  V u = 1.0f + x;
  // The rounding error of the sum, relative to it.
  V lost = select(x >= 1.0f, 1.0f - (u - x), x - (u - 1.0f));
  V result = log_normal(u, V(0.0f), lost / u);
  result = select(x == -1.0f, V(-kInfinity), result);
  result = select(x < -1.0f, V(kNan), result);
  result = select((x < 1e-7f) & (x > -1e-7f), fma(-0.5f * x, x, x), result);
  return select((x < kInfinity) & (x != 0.0f), result, x);
}

// x P(x^2) / Q(x^2), fitted to a relative error of 2e-9 on [-9, 9], beyond which the result rounds to 1. There the
// quotient is held at that of 9, and the product is cut off: one minimum at either end, where a clamp of x takes three
// times as many instructions.
template <Single V>
THALWEG_VECTOR V tanh(V x) {
  V z = x * x;
  z = select(z > 81.0f, V(81.0f), z);
  V p = fma(V(-1.224619809710609e-11f), z, 3.06426025518623e-08f);
  p = fma(p, z, 2.8031394331360696e-05f);
  p = fma(p, z, 0.003869513794707111f);
  p = fma(p, z, 0.13680861525150143f);
  p = fma(p, z, 1.0f);
  V q = fma(V(1.2890392052044436e-06f), z, 0.0003940722394935769f);
  q = fma(q, z, 0.027250179318998702f);
  q = fma(q, z, 0.47014193619986194f);
  q = fma(q, z, 1.0f);
  V r = fabs(x * p / q);
  r = select(r > 1.0f, V(1.0f), r);
  return copysign(r, x);
}

template <Single V>
THALWEG_VECTOR V sigmoid(V x) {
  V e = exp(-fabs(x));
  V numerator = select(x < 0.0f, e, 1.0f);
  return numerator / (1.0f + e);
}

// log(1 + e^x)
template <Single V>
THALWEG_VECTOR V softplus(V x) {
  V positive = select(x > 0.0f, x, 0.0f);
  V result = positive + log1p(exp(-fabs(x)));
  return select(x == x, result, x);
}

template <Single V>
THALWEG_VECTOR V erf(V x) {
  V a = fabs(x), z = x * x;
  V p = fma(V(8.51310251e-05f), z, -0.000817563909f);
  p = fma(p, z, 0.00520385895f);
  p = fma(p, z, -0.0268605091f);
  p = fma(p, z, 0.112837151f);
  p = fma(p, z, -0.376126349f);
  p = fma(p, z, 0.128379166f);
  V small = fma(p, x, x);
  V b = select(a > 4.0f, V(4.0f), a);
  // The logarithm of the complement.
  V q = fma(V(-2.08286274e-05f), b, 0.000431393652f);
  q = fma(q, b, -0.00415625516f);
  q = fma(q, b, 0.0250806175f);
  q = fma(q, b, -0.108220384f);
  q = fma(q, b, -0.633400857f);
  q = fma(q, b, -1.12948835f);
  q = fma(q, b, 0.000169205217f);
  V large = copysign(1.0f - exp(q), x);
  return select(a < 0.9f, small, large);
}

// x^y for 0 < x < infinity and a finite y, by way of logarithms in double.
THALWEG_VECTOR float pow_positive(float x, float y) {
  constexpr uint64_t root_half = 0x3fe6a09e00000000u, mantissa = 0x000fffffffffffffu;
  uint64_t bits = __builtin_bit_cast(uint64_t, static_cast<double>(x)) - root_half;
  // The exponent as a double without a conversion, which 64-bit integers lack: it becomes the low bits of 2^52.
  uint64_t exponent = (bits + (uint64_t{1024} << 52)) >> 52;
  double e = __builtin_bit_cast(double, exponent | 0x4330000000000000u) - (4503599627370496.0 + 1024.0);
  double m = __builtin_bit_cast(double, (bits & mantissa) + root_half);
  double s = (m - 1.0) / (m + 1.0), z = s * s;
  double p = __builtin_fma(0.22195308321368667, z, 0.2623081892525388);
  p = __builtin_fma(p, z, 0.3205988979753252);
  p = __builtin_fma(p, z, 0.4121985831111324);
  p = __builtin_fma(p, z, 0.5770780163555854);
  p = __builtin_fma(p, z, 0.9617966939259756);
  p = __builtin_fma(p, z, 2.8853900817779268);
  double t = static_cast<double>(y) * __builtin_fma(p, s, e);
  t = t < -200.0 ? -200.0 : t;
  t = t > 200.0 ? 200.0 : t;
  double shifted = t + 6755399441055744.0, f = t - (shifted - 6755399441055744.0);
  double q = __builtin_fma(1.3215486790144307e-06, f, 1.525273380405984e-05);
  q = __builtin_fma(q, f, 0.00015403530393381608);
  q = __builtin_fma(q, f, 0.0013333558146428443);
  q = __builtin_fma(q, f, 0.009618129107628477);
  q = __builtin_fma(q, f, 0.05550410866482158);
  q = __builtin_fma(q, f, 0.2402265069591007);
  q = __builtin_fma(q, f, 0.6931471805599453);
  q = __builtin_fma(q, f, 1.0);
  uint64_t scale = (__builtin_bit_cast(uint64_t, shifted) << 52) + (uint64_t{1023} << 52);
  return static_cast<float>(q * __builtin_bit_cast(double, scale));
}

}  // namespace thalweg::vector_math
