// Loops over lines of numbers that factorizations are made of: sums of products, and differences of products.
//
// Elements are float, double, or complex numbers of them. Results do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <complex>
#include <cstdint>

#include "compute/lanes/vectors.h"
#include "tensor/dtype.h"

namespace thalweg::linear {

template <typename T>
inline T conjugate(T x) {
  if constexpr (is_complex<T>)
    return std::conj(x);
  else
    return x;
}
// Without the standard's repair of infinities, which costs many times as much.
template <typename T>
[[gnu::always_inline]] inline T times(T a, T b) {
  if constexpr (is_complex<T>)
    return T(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
  else
    return a * b;
}

// The sum of a[i] b[i]; with `conjugated`, of conj(a[i]) b[i].
template <bool conjugated = false, typename T>
inline T dot(const T* a, const T* b, int64_t n) {
  if constexpr (is_complex<T>) {
    T sums[2] = {};
    int64_t i = 0;
    for (; i + 2 <= n; i += 2)
      for (int k = 0; k < 2; ++k) sums[k] += times(conjugated ? std::conj(a[i + k]) : a[i + k], b[i + k]);
    for (; i < n; ++i) sums[0] += times(conjugated ? std::conj(a[i]) : a[i], b[i]);
    return sums[0] + sums[1];
  } else {
    using V = lanes::Vector<T>;
    constexpr int64_t W = lanes::kLanes<T>;
    V sums[4] = {};
    int64_t i = 0;
    for (; i + 4 * W <= n; i += 4 * W)
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) sums[k] += lanes::load<T>(a + i + k * W) * lanes::load<T>(b + i + k * W);
    for (; i + W <= n; i += W) sums[0] += lanes::load<T>(a + i) * lanes::load<T>(b + i);
    const V sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    T result = 0;
    for (int64_t l = 0; l < W; ++l) result += sum[l];
    for (; i < n; ++i) result += a[i] * b[i];
    return result;
  }
}

// sums[r] = the sum of a[r * stride + i] b[i], for R rows at once: they share what is read of b.
template <int R, typename T>
inline void dots(const T* a, int64_t stride, const T* b, int64_t n, T* sums) {
  if constexpr (is_complex<T>) {
    for (int r = 0; r < R; ++r) sums[r] = dot(a + r * stride, b, n);
  } else {
    using V = lanes::Vector<T>;
    constexpr int64_t W = lanes::kLanes<T>;
    V partial[R][2] = {};
    int64_t i = 0;
    for (; i + 2 * W <= n; i += 2 * W) {
      const V b0 = lanes::load<T>(b + i), b1 = lanes::load<T>(b + i + W);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        partial[r][0] += lanes::load<T>(a + r * stride + i) * b0;
        partial[r][1] += lanes::load<T>(a + r * stride + i + W) * b1;
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const V both = partial[r][0] + partial[r][1];
      T sum = 0;
      for (int64_t l = 0; l < W; ++l) sum += both[l];
      sums[r] = sum;
    }
    for (; i < n; ++i)
      for (int r = 0; r < R; ++r) sums[r] += a[r * stride + i] * b[i];
  }
}

// y -= factor * x
template <typename T>
inline void subtract(T factor, const T* x, T* y, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] -= times(factor, x[i]);
}

// C -= A B, all of them row-major with the given distances between rows; spread over threads if `parallel`.
template <typename T>
void subtract_product(int64_t rows, int64_t columns, int64_t inner, const T* a, int64_t a_stride, const T* b,
                      int64_t b_stride, T* c, int64_t c_stride, bool parallel);

}  // namespace thalweg::linear
