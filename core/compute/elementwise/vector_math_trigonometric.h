// Sine, cosine and tangent of float and double as vector code; the contract is that of vector_math.h.
//
// They hold up to `kTrigLimit` in magnitude: callers send larger arguments to the standard library.
#pragma once

#include "compute/elementwise/vector_math_double.h"

namespace thalweg::vector_math {

template <typename V>
inline constexpr V kTrigLimit = V(8192);
template <>
inline constexpr double kTrigLimit<double> = 1048576.0;

// Pi in three parts, its inverse, and what rounds to an integer when it is added.
template <typename P>
inline constexpr P kPi[] = {3.14159274f, -8.74227766e-08f, -3.43024902e-15f};
template <>
inline constexpr double kPi<double>[] = {3.141592653589793, 1.2246467991473532e-16, -2.9947698097183397e-33};
template <typename P>
inline constexpr P kPerPi = P(0.31830988618379067);
template <typename P>
inline constexpr P kRounderOf = sizeof(P) == 4 ? P(kRounder) : P(kRounder64);

// x - turns * pi.
template <typename V>
THALWEG_VECTOR V without_half_turns(V x, V turns) {
  using P = Plain<V>;
  V r = fma(turns, -kPi<P>[0], x);
  r = fma(turns, -kPi<P>[1], r);
  return fma(turns, -kPi<P>[2], r);
}
// x, negated where the lowest bit is set.
template <typename V>
THALWEG_VECTOR V negated_where_odd(Bits<V> bits, V x) {
  return from_bits(to_bits(x) ^ shift_left(bits, int{sizeof(Plain<V>)} * 8 - 1));
}

// sin r for |r| <= pi/2.
template <Single V>
THALWEG_VECTOR V sin_reduced(V r) {
  V z = r * r;
  V p = fma(V(2.605777e-06f), z, -0.00019809665f);
  p = fma(p, z, 0.008333068f);
  p = fma(p, z, -0.1666666f);
  return fma(p * z, r, r);
}
template <Double V>
THALWEG_VECTOR V sin_reduced(V r) {
  V z = r * r;
  V p = fma(V(2.7214046446106624e-15), z, -7.643018179516531e-13);
  p = fma(p, z, 1.6058940965329598e-10);
  p = fma(p, z, -2.5052106903869462e-08);
  p = fma(p, z, 2.755731921156551e-06);
  p = fma(p, z, -0.00019841269841212468);
  p = fma(p, z, 0.008333333333333207);
  p = fma(p, z, -0.16666666666666666);
  return fma(p * z, r, r);
}

template <typename V>
THALWEG_VECTOR V sin(V x) {
  using P = Plain<V>;
  V shifted = fma(x, kPerPi<P>, kRounderOf<P>), q = shifted - kRounderOf<P>;
  V result = negated_where_odd(to_bits(shifted), sin_reduced(without_half_turns(x, q)));
  return select(x == P(0), x, result);
}

// cos x = -(-1)^q sin(x - (q + 1/2) pi): an odd rounder adds the minus.
template <typename V>
THALWEG_VECTOR V cos(V x) {
  using P = Plain<V>;
  constexpr P rounder = kRounderOf<P> + P(1);
  V shifted = fma(x, kPerPi<P>, P(-0.5)) + rounder, q = shifted - rounder;
  return negated_where_odd(to_bits(shifted), sin_reduced(without_half_turns(x, q + P(0.5))));
}

// (sin r, cos r) for |r| <= pi/4.
template <typename V>
struct SineAndCosine {
  V sine, cosine;
};
template <Single V>
THALWEG_VECTOR SineAndCosine<V> of_quarter(V r) {
  V z = r * r;
  V p = fma(V(2.71823728e-06f), z, -0.000198393274f);
  p = fma(p, z, 0.00833332911f);
  p = fma(p, z, -0.166666672f);
  V q = fma(V(-2.72095463e-07f), z, 2.47995122e-05f);
  q = fma(q, z, -0.00138888834f);
  q = fma(q, z, 0.0416666679f);
  q = fma(q, z, -0.5f);
  return {fma(p * z, r, r), fma(q, z, 1.0f)};
}
template <Double V>
THALWEG_VECTOR SineAndCosine<V> of_quarter(V r) {
  V z = r * r;
  V p = fma(V(1.5895433502089058e-10), z, -2.5050734392193352e-08);
  p = fma(p, z, 2.7557313538527393e-06);
  p = fma(p, z, -0.00019841269829358547);
  p = fma(p, z, 0.00833333333332184);
  p = fma(p, z, -0.1666666666666663);
  V q = fma(V(-1.135857703607227e-11), z, 2.0875702453509e-09);
  q = fma(q, z, -2.7557314198804984e-07);
  q = fma(q, z, 2.4801587288953846e-05);
  q = fma(q, z, -0.0013888888888873296);
  q = fma(q, z, 0.041666666666666595);
  q = fma(q, z, -0.5);
  return {fma(p * z, r, r), fma(q, z, 1.0)};
}

template <typename V>
THALWEG_VECTOR V tan(V x) {
  using P = Plain<V>;
  V shifted = fma(x, P(2) * kPerPi<P>, kRounderOf<P>), q = shifted - kRounderOf<P>;
  auto [s, c] = of_quarter(without_half_turns(x, q * P(0.5)));
  auto is_even = (to_bits(shifted) & 1u) == 0u;
  V result = select(is_even, s, -c) / select(is_even, c, s);
  return select(x == P(0), x, result);
}

}  // namespace thalweg::vector_math
