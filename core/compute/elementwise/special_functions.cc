// Special functions of double: series, continued fractions and asymptotic expansions.
#include "compute/elementwise/special_functions.h"

#include <math.h>  // lgamma_r

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "compute/elementwise/vector_math_double.h"

namespace thalweg::special {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kPi = 3.14159265358979323846;
constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
// Beyond this the expansion for large a is better than any series; below, all series end well before kMaxTerms.
constexpr double kLargeA = 1e5;
constexpr int kMaxTerms = 20000;

// y > 0 with erfc(y) = q, for q in (0, 1].
double erfc_inverse(double q) {
  // Winitzki's closed form to three digits, then Halley's iteration.
  double l = std::log(q * (2 - q)), c = 2 / (kPi * 0.147) + l / 2;
  double y = std::sqrt(std::max(0.0, std::sqrt(c * c - l / 0.147) - c));
  for (int i = 0; i < 4; ++i) {
    double slope = 2 / std::sqrt(kPi) * std::exp(-y * y);
    if (!(slope > 0)) break;
    double step = (std::erfc(y) - q) / slope;
    y += step / (1 - y * step);
  }
  return y;
}

// x^a e^-x / gamma(a + 1), without overflow on the way.
double gamma_prefactor(double a, double x) { return std::exp(a * std::log(x) - x - lgamma(a + 1)); }

// The sum over n of x^n / ((a + 1) ... (a + n)).
double gamma_series(double a, double x, double precision) {
  double term = 1, sum = 1;
  for (int n = 1; n < kMaxTerms; ++n) {
    term *= x / (a + n);
    sum += term;
    if (a + n > x && term < precision * 0.1 * sum) break;
  }
  return sum;
}

// The same, and its derivative by a.
std::pair<double, double> gamma_series_slope(double a, double x) {
  double term = 1, sum = 1, log_slope = 0, slope = 0;
  for (int n = 1; n < kMaxTerms; ++n) {
    term *= x / (a + n);
    log_slope -= 1 / (a + n);
    sum += term;
    slope += term * log_slope;
    if (a + n > x && term * (1 - log_slope) < kEpsilon * 0.1 * sum) break;
  }
  return {sum, slope};
}

// Q(a, x) by Lentz's evaluation of its continued fraction, for x > a + 1 or so.
double igammac_fraction(double a, double x, double precision) {
  constexpr double tiny = 1e-300;
  double b = x + 1 - a, c = 1 / tiny, d = 1 / b, h = d;
  for (int i = 1; i < kMaxTerms; ++i) {
    double an = -i * (i - a);
    b += 2;
    d = an * d + b;
    d = 1 / (std::fabs(d) < tiny ? tiny : d);
    c = b + an / c;
    c = std::fabs(c) < tiny ? tiny : c;
    double delta = d * c;
    h *= delta;
    if (std::fabs(delta - 1) < precision) break;
  }
  return std::exp(a * std::log(x) - x - lgamma(a)) * h;
}

// Q(a, x) for large a: Temme's uniform expansion, first term.
double igammac_large(double a, double x) {
  double mu = (x - a) / a;
  double half_square = mu - std::log1p(mu);  // eta^2 / 2
  double eta = std::copysign(std::sqrt(2 * std::max(0.0, half_square)), mu);
  double c0 = std::fabs(eta) < 1e-3 ? -1.0 / 3 + eta / 12 - 2 * eta * eta / 135 : 1 / mu - 1 / eta;
  double rest = std::exp(-a * half_square) / std::sqrt(2 * kPi * a) * c0;
  return 0.5 * std::erfc(eta * std::sqrt(a / 2)) + rest;
}

bool outside_gamma_domain(double a, double x) { return !(a > 0) || !(x >= 0); }

// zeta for q > 0, x > 1: direct terms, then the Euler-Maclaurin formula.
double zeta_positive(double x, double q) {
  // B(2k) / (2k)!
  static constexpr double coefficients[] = {8.333333333333333e-02,  -1.388888888888889e-03, 3.306878306878307e-05,
                                            -8.267195767195767e-07, 2.087675698786810e-08,  -5.284190138687493e-10,
                                            1.338253653068468e-11,  -3.389680296322583e-13, 8.586062056277845e-15,
                                            -2.174868698558062e-16, 5.509002828360230e-18,  -1.395446468581252e-19};
  double sum = 0, enough = std::max(10.0, x);
  if (x <= 12 && q < enough) {
    // A fixed number of terms, in vectors.
    double terms[12];
    for (int k = 0; k < 12; ++k) terms[k] = vector_math::exp(-x * vector_math::log(q + k));
    for (int k = 11; k >= 0; --k) sum += terms[k];
    if (std::isinf(sum)) return sum;
    q += 12;
  }
  // At most a few dozen terms count before the quotient of neighbours, ((w) / (w + 1))^x, has made them negligible.
  for (int k = 0; k < 100 && q < enough; ++k, q += 1) {
    double term = std::pow(q, -x);
    sum += term;
    if (term < kEpsilon * 0.01 * sum || std::isinf(sum)) return sum;
  }
  const double power = std::pow(q, -x);
  sum += power * q / (x - 1) + power / 2;
  double factor = x * power / q;
  for (int k = 0; k < 12; ++k) {
    double term = coefficients[k] * factor;
    sum += term;
    if (std::fabs(term) < kEpsilon * 0.1 * std::fabs(sum)) break;
    factor *= (x + 2 * k + 1) * (x + 2 * k + 2) / (q * q);
  }
  return sum;
}

// The continued fraction of the incomplete beta function, by Lentz.
double beta_fraction(double a, double b, double x) {
  constexpr double tiny = 1e-300;
  auto guarded = [](double v) { return std::fabs(v) < tiny ? tiny : v; };
  double c = 1, d = 1 / guarded(1 - (a + b) * x / (a + 1)), h = d;
  for (int m = 1; m < kMaxTerms; ++m) {
    double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / guarded(1 + even * d);
    c = guarded(1 + even / c);
    h *= d * c;
    double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / guarded(1 + odd * d);
    c = guarded(1 + odd / c);
    double delta = d * c;
    h *= delta;
    if (std::fabs(delta - 1) < kEpsilon) break;
  }
  return h;
}

// exp(-|x|) I_order(x) for order 0 or 1: the power series, then the expansion for large arguments.
double bessel_scaled(int order, double x) {
  double size = std::fabs(x);
  if (std::isnan(x)) return x;
  if (std::isinf(x)) return 0;
  double sum = 1, term = 1;
  if (size <= 20) {
    double z = size * size / 4;
    for (int k = 1; k < 200 && term > kEpsilon * 0.1 * sum; ++k) sum += term *= z / (k * (k + order));
    sum *= std::exp(-size) * (order ? size / 2 : 1);
  } else {
    for (int k = 1; k < 30 && std::fabs(term) > kEpsilon * 0.1; ++k)
      sum += term *= ((2.0 * k - 1) * (2 * k - 1) - 4 * order) / (k * 8 * size);
    sum /= std::sqrt(2 * kPi * size);
  }
  return order && x < 0 ? -sum : sum;
}

}  // namespace

double bessel_i0e(double x) { return bessel_scaled(0, x); }
double bessel_i1e(double x) { return bessel_scaled(1, x); }

double lgamma(double x) {
  int sign;
  return ::lgamma_r(x, &sign);
}

double digamma(double x) {
  if (!(std::fabs(x) < kInf)) return x > 0 ? x : kNan;
  if (x <= 0) {
    if (x == std::floor(x)) return kNan;
    return digamma(1 - x) - kPi / std::tan(kPi * (x - std::round(x)));
  }
  double shift = 0;
  for (; x < 10; x += 1) shift -= 1 / x;
  double z = 1 / (x * x);
  // -B(2k) / 2k
  double series =
      z *
      (-1.0 / 12 +
       z * (1.0 / 120 + z * (-1.0 / 252 + z * (1.0 / 240 + z * (-1.0 / 132 + z * (691.0 / 32760 + z * (-1.0 / 12)))))));
  return shift + std::log(x) - 0.5 / x + series;
}

double erfinv(double x) {
  double size = std::fabs(x);
  if (!(size <= 1)) return kNan;
  if (size == 1) return std::copysign(kInf, x);
  if (size > 0.5) return std::copysign(erfc_inverse(1 - size), x);
  double y = x * std::sqrt(kPi) / 2;
  for (int i = 0; i < 5; ++i) {
    double step = (std::erf(y) - x) / (2 / std::sqrt(kPi) * std::exp(-y * y));
    y -= step / (1 + y * step);
  }
  return y;
}

double ndtri(double p) {
  if (!(p >= 0 && p <= 1)) return kNan;
  if (p == 0) return -kInf;
  if (p == 1) return kInf;
  constexpr double root = 1.41421356237309504880;
  if (std::fabs(p - 0.5) < 0.25) return root * erfinv(2 * p - 1);
  return p < 0.5 ? -root * erfc_inverse(2 * p) : root * erfc_inverse(2 * (1 - p));
}

double igamma(double a, double x, double precision) {
  if (outside_gamma_domain(a, x)) return kNan;
  if (x == 0) return 0;
  if (std::isinf(a)) return std::isinf(x) ? kNan : 0;
  if (std::isinf(x)) return 1;
  if (a > kLargeA) return 1 - igammac_large(a, x);
  if (x > 1 && x > a + 1) return 1 - igammac_fraction(a, x, precision);
  return gamma_prefactor(a, x) * gamma_series(a, x, precision);
}

double igammac(double a, double x, double precision) {
  if (outside_gamma_domain(a, x)) return kNan;
  if (x == 0) return 1;
  if (std::isinf(a)) return std::isinf(x) ? kNan : 1;
  if (std::isinf(x)) return 0;
  if (a > kLargeA) return igammac_large(a, x);
  if (x > 1 && x > a + 1) return igammac_fraction(a, x, precision);
  return 1 - gamma_prefactor(a, x) * gamma_series(a, x, precision);
}

double igamma_grad_a(double a, double x) {
  if (outside_gamma_domain(a, x)) return kNan;
  if (x == 0 || std::isinf(x)) return 0;
  if (std::isinf(a)) return 0;
  if (a > kLargeA) {
    double step = a * 1e-5;
    return (igammac_large(a - step, x) - igammac_large(a + step, x)) / (2 * step);
  }
  if (x > a + 40 * std::sqrt(a) + 800) return 0;  // P is 1 to the last digit on both sides.
  auto [sum, slope] = gamma_series_slope(a, x);
  return gamma_prefactor(a, x) * ((std::log(x) - digamma(a + 1)) * sum + slope);
}

double gamma_sample_grad(double a, double x) {
  if (outside_gamma_domain(a, x)) return kNan;
  if (x == 0) return 0;
  if (std::isinf(x) || std::isinf(a)) return kNan;
  if (a > kLargeA || x > a + 40 * std::sqrt(a) + 800) {
    // x is nearly a + sqrt(a) z for a standard normal z.
    return 1 + (x - a) / (2 * a);
  }
  auto [sum, slope] = gamma_series_slope(a, x);
  return -x / a * ((std::log(x) - digamma(a + 1)) * sum + slope);
}

double zeta(double x, double q) {
  if (std::isnan(x) || std::isnan(q)) return kNan;
  if (x == 1) return kInf;
  if (x < 1) return kNan;
  if (std::isinf(q)) return q > 0 ? 0 : kNan;
  if (q > 0) return std::isinf(x) ? (q > 1 ? 0 : q == 1 ? 1 : kInf) : zeta_positive(x, q);
  bool whole = x == std::floor(x) && std::fabs(x) < 9e15;
  if (!whole) return kNan;
  bool even = std::fmod(x, 2) == 0;
  if (q == std::floor(q)) return even ? kInf : kNan;
  // The terms with negative bases are those of a zeta function, too, up to their sign.
  double size = -q, fraction = size - std::floor(size);
  double negative = zeta_positive(x, fraction) - zeta_positive(x, size + 1);
  return (even ? negative : -negative) + zeta_positive(x, 1 - fraction);
}

double polygamma(double n, double x) {
  if (!(n >= 0) || n != std::floor(n) || std::isinf(n) || std::isnan(x)) return kNan;
  if (n == 0) return digamma(x);
  double size = std::exp(lgamma(n + 1)) * zeta(n + 1, x);
  return std::fmod(n, 2) == 0 ? -size : size;
}

double betainc(double a, double b, double x) {
  if (!(a > 0) || !(b > 0) || !(x >= 0) || !(x <= 1) || std::isinf(a) || std::isinf(b)) return kNan;
  if (x == 0 || x == 1) return x;
  double front = std::exp(a * std::log(x) + b * std::log1p(-x) + lgamma(a + b) - lgamma(a) - lgamma(b));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

}  // namespace thalweg::special
