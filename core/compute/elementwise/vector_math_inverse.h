// Inverse trigonometric and hyperbolic functions of float and double as vector code; the contract is that of
// vector_math.h.
#pragma once

#include "compute/elementwise/polynomial.h"

namespace thalweg::vector_math {

// (atan(t) / t - 1) / t^2 and (asin(s) / s - 1) / s^2, by the square of the argument.
template <typename V>
inline constexpr V kAtan[] = {-6.0753614e-02f, 1.059272e-01f, -1.4243391e-01f, 1.9998464e-01f, -3.3333316e-01f};
template <>
inline constexpr double kAtan<double>[] = {0.01628357235648259,   -0.0345685906686069,  0.045515165635903104,
                                           -0.052304374642516874, 0.05878926715756726,  -0.066664246872465,
                                           0.07692296363979952,   -0.09090908753118594, 0.11111111105147764,
                                           -0.14285714285659748,  0.19999999999999804,  -0.3333333333333333};
template <typename V>
inline constexpr V kAsin[] = {4.223057e-02f, 2.4140976e-02f, 4.5478344e-02f, 7.495233e-02f, 1.6666754e-01f};
template <>
inline constexpr double kAsin<double>[] = {
    0.02961201126495512,  -0.01924167174674304, 0.019554513336123378, 0.0030448799094556773, 0.009319560794767446,
    0.009621842970100282, 0.011566459612121669, 0.01396378001220357,  0.017352816540325496,  0.02237215744350722,
    0.03038194447553234,  0.044642857142551895, 0.07500000000000118,  0.16666666666666666};

template <typename V>
inline constexpr bool kIsWide = sizeof(V) == 8;

constexpr double kTanEighth = 0.41421356237309505, kTanThreeEighths = 2.414213562373095;
// Their sum is pi / 2 with half as many bits again.
template <typename V>
inline constexpr V kHalfPi = V(1.5707963267948966);
template <typename V>
inline constexpr V kHalfPiRest = kIsWide<V> ? V(6.123233995736766e-17) : V(-4.37113883e-08);
// Below the one f(x) is x, above the other 1 + x is x.
template <typename V>
inline constexpr V kTiny = kIsWide<V> ? V(1e-8) : V(1e-4);
template <typename V>
inline constexpr V kHuge = kIsWide<V> ? V(1e17) : V(1e9);

// atan(t) for |t| <= tan(pi / 8), as t + the rest.
template <typename V>
THALWEG_VECTOR V atan_rest(V t) {
  V z = t * t;
  return polynomial(kAtan<Plain<V>>, z) * z * t;
}

// Around 0, 1 or infinity, whichever is nearest: atan(a) = c + atan((a - tan c) / (1 + a tan c)).
template <typename V>
THALWEG_VECTOR V atan(V x) {
  using P = Plain<V>;
  V a = fabs(x);
  auto far = a > P(kTanThreeEighths), middle = a > P(kTanEighth);
  V numerator = select(far, V(-1), select(middle, a - P(1), a));
  V denominator = select(far, a, select(middle, a + P(1), V(1)));
  V base = select(far, V(kHalfPi<P>), select(middle, V(P(0.5) * kHalfPi<P>), V(0)));
  V base_rest = select(far, V(kHalfPiRest<P>), select(middle, V(P(0.5) * kHalfPiRest<P>), V(0)));
  V t = numerator / denominator;
  return copysign(base + (t + (atan_rest(t) + base_rest)), x);
}

// The angle of the point (x, y), with the signs of zeros and the corners at infinity of the standard library.
template <typename V>
THALWEG_VECTOR V atan2(V y, V x) {
  using P = Plain<V>;
  V ax = fabs(x), ay = fabs(y);
  auto steep = ay > ax;
  V numerator = select(steep, ax, ay), denominator = select(steep, ay, ax);
  V ratio = numerator / denominator;
  ratio = select(numerator == denominator, V(1), ratio);  // also of two infinities
  ratio = select(denominator == P(0), V(0), ratio);
  auto middle = ratio > P(kTanEighth);
  V t = select(middle, (ratio - P(1)) / (ratio + P(1)), ratio);
  V base = select(middle, V(P(0.5) * kHalfPi<P>), V(0)), base_rest = select(middle, V(P(0.5) * kHalfPiRest<P>), V(0));
  // The angle is turn + sign * (base + t + ...): the large terms are added last.
  V rest = t + (atan_rest(t) + base_rest);
  base = select(steep, kHalfPi<P> - base, base);
  rest = select(steep, kHalfPiRest<P> - rest, rest);
  auto back = copysign(V(1), x) < P(0);
  V angle = select(back, (P(2) * kHalfPi<P> - base) + (P(2) * kHalfPiRest<P> - rest), base + rest);
  angle = select((x == x) & (y == y), angle, V(std::numeric_limits<P>::quiet_NaN()));
  return copysign(angle, y);
}

// asin(s) for |s| <= 1/2, from its square, as s + the rest.
template <typename V>
THALWEG_VECTOR V asin_rest(V s, V z) {
  return polynomial(kAsin<Plain<V>>, z) * z * s;
}

template <typename V>
THALWEG_VECTOR V asin(V x) {
  using P = Plain<V>;
  V a = fabs(x);
  auto large = a > P(0.5);
  V z = select(large, P(0.5) * (P(1) - a), a * a);  // NaN stays NaN, and a > 1 gives one.
  V s = select(large, sqrt(z), a);
  V rest = asin_rest(s, z);
  V outside = kHalfPi<P> - P(2) * (s + (rest - P(0.5) * kHalfPiRest<P>));
  return copysign(select(large, outside, s + rest), x);
}

template <typename V>
THALWEG_VECTOR V acos(V x) {
  using P = Plain<V>;
  V a = fabs(x);
  auto large = a > P(0.5);
  V z = select(large, P(0.5) * (P(1) - a), a * a);
  V s = select(large, sqrt(z), x);
  V rest = asin_rest(s, z);
  V twice = P(2) * (s + rest);
  V outside = select(x < P(0), P(2) * kHalfPi<P> - (twice - P(2) * kHalfPiRest<P>), twice);
  return select(large, outside, kHalfPi<P> - (s + (rest - kHalfPiRest<P>)));
}

template <typename V>
THALWEG_VECTOR V sinh(V x) {
  using P = Plain<V>;
  V a = fabs(x);
  auto is_far = a > P(40);
  V e = expm1(select(is_far, P(0.5) * a, a));  // e^a overflows before its half does: there it is the root's square.
  V near = P(0.5) * (e + e / (e + P(1)));
  V far = (P(0.5) * (e + P(1))) * (e + P(1));
  V result = select(is_far, far, near);
  result = select(a < kTiny<P>, a, result);
  return copysign(select(x == x, result, x), x);
}

template <typename V>
THALWEG_VECTOR V cosh(V x) {
  using P = Plain<V>;
  V a = fabs(x);
  auto is_far = a > P(40);
  V e = exp(select(is_far, P(0.5) * a, a));
  V near = P(0.5) * e + P(0.5) / e;
  V far = (P(0.5) * e) * e;
  V result = select(is_far, far, near);
  return select(x == x, result, x);
}

constexpr double kLogTwo = 0.6931471805599453;

template <typename V>
THALWEG_VECTOR V asinh(V x) {
  using P = Plain<V>;
  V a = fabs(x);
  auto huge = a > kHuge<P>;
  V b = select(huge, V(kHuge<P>), a), square = b * b;
  V near = b + square / (P(1) + sqrt(square + P(1)));
  V result = log1p(select(huge, a, near)) + select(huge, V(P(kLogTwo)), V(0));
  result = select(a < kTiny<P>, a, result);
  return copysign(select(x == x, result, x), x);
}

template <typename V>
THALWEG_VECTOR V acosh(V x) {
  using P = Plain<V>;
  auto huge = x > kHuge<P>;
  V b = select(huge, V(kHuge<P>), x), t = b - P(1);
  V near = t + sqrt(t * (t + P(2)));
  V result = log1p(select(huge, x, near)) + select(huge, V(P(kLogTwo)), V(0));
  return select(x >= P(1), result, V(std::numeric_limits<P>::quiet_NaN()));
}

template <typename V>
THALWEG_VECTOR V atanh(V x) {
  using P = Plain<V>;
  V a = fabs(x);
  V result = P(0.5) * log1p((a + a) / (P(1) - a));
  result = select(a < kTiny<P>, a, result);
  return copysign(select(x == x, result, x), x);
}

}  // namespace thalweg::vector_math
