// The loops of softmax: the largest logit of a row, the exponentials of the rest below it, and their sum.
//
// Long rows are reduced in several lanes that are joined at the end. Short rows would spend their time joining: of them
// several are laid side by side, one per lane, so that every step is one vector operation for all of them.
#pragma once

#include "compute/elementwise/functors.h"
#include "tensor/reduced_floats.h"

namespace thalweg::softmax_rows {

// Partial results of a row; the compiler keeps them in vector registers.
constexpr int kLanes = 16;
// Rows that are worked on side by side, and up to which length.
constexpr int kSide = 16;
constexpr int64_t kShort = 32;

// e^x for x <= 0, of a form that loops over it vectorize. Results below the normal numbers are 0; NaN stays.
THALWEG_VECTOR float exp_below_zero(float x) {
  const auto [r, n] = vector_math::reduce_exp(x);
  const float e = (vector_math::expm1_reduced(r) + 1.0f) * vector_math::power_of_two<float>(n);
  return x < -87.33654f ? 0.0f : e;
}
THALWEG_VECTOR double exp_below_zero(double x) {
  const auto [r, n] = vector_math::reduce_exp(x);
  const double e = (vector_math::expm1_reduced(r) + 1.0) * vector_math::power_of_two<double>(n);
  return x < -708.0 ? 0.0 : e;
}

// The largest number. Of NaNs some are passed over: the sum of exponentials has all of them.
template <typename C>
inline C larger(C a, C b) {
  return a > b ? a : b;
}

// Elements of a vector register: loops over so many become one instruction each.
template <typename C>
constexpr int kWidth = 32 / static_cast<int>(sizeof(C));

template <typename C>
C row_max(const C* x, int64_t n) {
  C lanes[kLanes];
  std::fill(lanes, lanes + kLanes, -std::numeric_limits<C>::infinity());
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int k = 0; k < kLanes; ++k) lanes[k] = larger(lanes[k], x[i + k]);
  for (int k = 0; i < n; ++i, ++k) lanes[k] = larger(lanes[k], x[i]);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int k = 0; k < half; ++k) lanes[k] = larger(lanes[k], lanes[k + half]);
  return lanes[0];
}

// Calls use(i, count, e) with the exponentials e[0, count) of x[i, i + count) - shift, and returns their sum.
template <typename C, typename Use>
inline C row_exp_sum(const C* x, C shift, int64_t n, const Use& use) {
  C lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    C e[kLanes];
#pragma GCC unroll 4
    for (int v = 0; v < kLanes; v += kWidth<C>)
      for (int k = v; k < v + kWidth<C>; ++k) e[k] = exp_below_zero(x[i + k] - shift);
    for (int k = 0; k < kLanes; ++k) lanes[k] += e[k];
    use(i, std::integral_constant<int64_t, kLanes>{}, e);
  }
  if (i < n) {
    // The rest at once, filled up with elements that count nothing.
    C e[kLanes];
    for (int k = 0; k < kLanes; ++k) e[k] = -std::numeric_limits<C>::infinity();
    for (int k = 0; k < n - i; ++k) e[k] = x[i + k] - shift;
    for (int k = 0; k < kLanes; ++k) e[k] = exp_below_zero(e[k]);
    for (int k = 0; k < kLanes; ++k) lanes[k] += e[k];
    use(i, n - i, e);
  }
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int k = 0; k < half; ++k) lanes[k] += lanes[k + half];
  return lanes[0];
}

// Up to kSide short rows side by side: element j of row r is at [j * kSide + r].
template <typename C>
struct ShortRows {
  C x[kShort * kSide];  // Logits less the largest of their row.
  C e[kShort * kSide];  // Exponentials of these.
  C sum[kSide];         // Of the exponentials of a row.

  void load(const C* from, int64_t rows, int64_t n) {
    spread(from, x, rows, n);
    C top[kSide];
    std::fill(top, top + kSide, -std::numeric_limits<C>::infinity());
    for (int64_t j = 0; j < n; ++j)
      for (int r = 0; r < kSide; ++r) top[r] = larger(top[r], x[j * kSide + r]);
    std::fill(sum, sum + kSide, C(0));
    for (int64_t j = 0; j < n; ++j) {
      C* at = x + j * kSide;
      C* to = e + j * kSide;
      for (int r = 0; r < kSide; ++r) at[r] -= top[r];
      for (int r = 0; r < kSide; ++r) to[r] = exp_below_zero(at[r]);
      for (int r = 0; r < kSide; ++r) sum[r] += to[r];
    }
  }
  // Lays rows side by side; lanes without a row repeat the last one.
  static void spread(const C* from, C* to, int64_t rows, int64_t n) {
    if (rows == kSide) {
      for (int64_t j = 0; j < n; ++j)
        for (int r = 0; r < kSide; ++r) to[j * kSide + r] = from[r * n + j];
    } else {
      for (int64_t j = 0; j < n; ++j)
        for (int r = 0; r < kSide; ++r) to[j * kSide + r] = from[std::min<int64_t>(r, rows - 1) * n + j];
    }
  }
  // Back: one row after the other.
  static void gather(const C* from, C* to, int64_t rows, int64_t n) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < n; ++j) to[r * n + j] = from[j * kSide + r];
  }
};

}  // namespace thalweg::softmax_rows
