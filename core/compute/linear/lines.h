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
using Real = decltype(std::real(T()));

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

// --- Vectors of elements: a complex one takes two lanes, its real part first -----------------------------------------

template <typename T>
using Pack = lanes::Vector<Real<T>>;
template <typename T>
inline constexpr int64_t kPerPack = lanes::kLanes<Real<T>> / (is_complex<T> ? 2 : 1);

template <typename T>
[[gnu::always_inline]] inline Pack<T> load(const T* from) {
  return lanes::load<Real<T>>(reinterpret_cast<const Real<T>*>(from));
}
template <typename T>
[[gnu::always_inline]] inline void store(Pack<T> v, T* to) {
  lanes::store<Real<T>>(v, reinterpret_cast<Real<T>*>(to));
}

template <typename R>
struct PairsOfLanes;
template <>
struct PairsOfLanes<float> {
  static constexpr lanes::Shuffles<float>::Mask swap = {1, 0, 3, 2, 5, 4, 7, 6};
  static constexpr lanes::Vector<float> signs = {-1, 1, -1, 1, -1, 1, -1, 1};
};
template <>
struct PairsOfLanes<double> {
  static constexpr lanes::Shuffles<double>::Mask swap = {1, 0, 3, 2};
  static constexpr lanes::Vector<double> signs = {-1, 1, -1, 1};
};
// Real and imaginary parts change places.
template <typename R>
[[gnu::always_inline]] inline lanes::Vector<R> swap_parts(lanes::Vector<R> v) {
  return __builtin_shuffle(v, PairsOfLanes<R>::swap);
}

// sum + factor * x
template <typename T>
[[gnu::always_inline]] inline Pack<T> plus_product(Pack<T> sum, T factor, Pack<T> x) {
  if constexpr (is_complex<T>) {
    using R = Real<T>;
    return sum + factor.real() * x + (factor.imag() * PairsOfLanes<R>::signs) * swap_parts<R>(x);
  } else {
    return sum + factor * x;
  }
}

// A sum of products of elements in the making: a b, or conj(a) b.
template <typename T>
struct PackedDot {
  Pack<T> straight{}, crossed{};
  [[gnu::always_inline]] void add(Pack<T> a, Pack<T> b) {
    straight += a * b;
    if constexpr (is_complex<T>) crossed += a * swap_parts<Real<T>>(b);
  }
  [[gnu::always_inline]] void add(const PackedDot& other) {
    straight += other.straight;
    if constexpr (is_complex<T>) crossed += other.crossed;
  }
  template <bool conjugated>
  [[gnu::always_inline]] T sum() const {
    constexpr int64_t W = lanes::kLanes<Real<T>>;
    if constexpr (is_complex<T>) {
      Real<T> re = 0, im = 0;
#pragma GCC unroll 4
      for (int64_t l = 0; l < W; l += 2) {
        re += conjugated ? straight[l] + straight[l + 1] : straight[l] - straight[l + 1];
        im += conjugated ? crossed[l] - crossed[l + 1] : crossed[l] + crossed[l + 1];
      }
      return T(re, im);
    } else {
      Real<T> result = 0;
#pragma GCC unroll 8
      for (int64_t l = 0; l < W; ++l) result += straight[l];
      return result;
    }
  }
};

// --- Lines -----------------------------------------------------------------------------------------------------------

// The sum of a[i] b[i]; with `conjugated`, of conj(a[i]) b[i].
template <bool conjugated = false, typename T>
inline T dot(const T* a, const T* b, int64_t n) {
  constexpr int64_t W = kPerPack<T>;
  PackedDot<T> sums[4];
  int64_t i = 0;
  for (; i + 4 * W <= n; i += 4 * W)
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) sums[k].add(load(a + i + k * W), load(b + i + k * W));
  for (; i + W <= n; i += W) sums[0].add(load(a + i), load(b + i));
  sums[0].add(sums[1]);
  sums[2].add(sums[3]);
  sums[0].add(sums[2]);
  T result = sums[0].template sum<conjugated>();
  for (; i < n; ++i) result += times(conjugated ? conjugate(a[i]) : a[i], b[i]);
  return result;
}

// sums[r] = the sum of a[r * stride + i] b[i], for R rows at once: they share what is read of b.
template <int R, bool conjugated = false, typename T>
inline void dots(const T* a, int64_t stride, const T* b, int64_t n, T* sums) {
  constexpr int64_t W = kPerPack<T>;
  constexpr int kTurns = is_complex<T> ? 1 : 2;
  PackedDot<T> partial[R][kTurns];
  int64_t i = 0;
  for (; i + kTurns * W <= n; i += kTurns * W) {
#pragma GCC unroll 2
    for (int t = 0; t < kTurns; ++t) {
      const Pack<T> part = load(b + i + t * W);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) partial[r][t].add(load(a + r * stride + i + t * W), part);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    for (int t = 1; t < kTurns; ++t) partial[r][0].add(partial[r][t]);
    sums[r] = partial[r][0].template sum<conjugated>();
  }
  for (; i < n; ++i)
    for (int r = 0; r < R; ++r) sums[r] += times(conjugated ? conjugate(a[r * stride + i]) : a[r * stride + i], b[i]);
}

// y -= factor * x
template <typename T>
inline void subtract(T factor, const T* x, T* y, int64_t n) {
  constexpr int64_t W = kPerPack<T>;
  int64_t i = 0;
  for (; i + W <= n; i += W) store(plus_product<T>(load(y + i), -factor, load(x + i)), y + i);
  for (; i < n; ++i) y[i] -= times(factor, x[i]);
}

// y[r * stride + i] -= factors[r] * x[i], for R lines at once.
template <int R, typename T>
inline void subtract_from(const T* factors, const T* x, T* y, int64_t stride, int64_t n) {
  constexpr int64_t W = kPerPack<T>;
  int64_t i = 0;
  for (; i + W <= n; i += W) {
    const Pack<T> part = load(x + i);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      T* to = y + r * stride + i;
      store(plus_product<T>(load(to), -factors[r], part), to);
    }
  }
  for (; i < n; ++i)
    for (int r = 0; r < R; ++r) y[r * stride + i] -= times(factors[r], x[i]);
}

// y += the sum of factors[r] * x[r * stride], for R lines at once.
template <int R, typename T>
inline void add_lines(const T* factors, const T* x, int64_t stride, T* y, int64_t n) {
  constexpr int64_t W = kPerPack<T>;
  int64_t i = 0;
  for (; i + W <= n; i += W) {
    Pack<T> sum = load(y + i);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) sum = plus_product<T>(sum, factors[r], load(x + r * stride + i));
    store(sum, y + i);
  }
  for (; i < n; ++i)
    for (int r = 0; r < R; ++r) y[i] += times(factors[r], x[r * stride + i]);
}

// sums[q] = (line q of a)^H x for `count` lines.
template <typename T>
inline void project(const T* a, int64_t stride, int64_t count, const T* x, int64_t n, T* sums) {
  constexpr int kTogether = is_complex<T> ? 2 : 4;
  int64_t q = 0;
  for (; q + kTogether <= count; q += kTogether) dots<kTogether, true>(a + q * stride, stride, x, n, sums + q);
  for (; q < count; ++q) sums[q] = dot<true>(a + q * stride, x, n);
}
// y += the sum of factors[q] times line q of x, for `count` lines.
template <typename T>
inline void add_combination(const T* factors, const T* x, int64_t stride, int64_t count, T* y, int64_t n) {
  int64_t q = 0;
  for (; q + 4 <= count; q += 4) add_lines<4>(factors + q, x + q * stride, stride, y, n);
  for (; q < count; ++q) add_lines<1>(factors + q, x + q * stride, stride, y, n);
}

// Rows become lines: to[j * rows + i] = from[i * columns + j].
template <typename T>
void transpose_to(const T* from, int64_t rows, int64_t columns, T* to);

// C -= A B, all of them row-major with the given distances between rows; spread over threads if `parallel`.
template <typename T>
void subtract_product(int64_t rows, int64_t columns, int64_t inner, const T* a, int64_t a_stride, const T* b,
                      int64_t b_stride, T* c, int64_t c_stride, bool parallel);

}  // namespace thalweg::linear
