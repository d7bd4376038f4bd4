// Rows and columns of arrays in memory, to and from lanes: lane l holds row l, or column l.
//
// A block of fewer rows or columns than lanes leaves the other lanes zero.
#pragma once

#include "compute/fourier/lanes.h"

namespace thalweg::fourier {

template <typename V>
[[gnu::always_inline]] inline Complex<V> swapped(const Complex<V>& x, bool swap) {
  return swap ? Complex<V>{x.im, x.re} : x;
}

// An inverse transform is a forward one with the real and the imaginary parts in each other's place: `swap`.
template <typename T>
void load_rows(const std::complex<T>* in, int64_t stride, int64_t rows, int64_t n, bool swap, Complex<Vector<T>>* x) {
  constexpr int64_t W = kLanes<T>, kStep = W / 2;
  int64_t i = 0;
  for (; rows == W && i + kStep <= n; i += kStep) {
    Vector<T> v[W];
    for (int64_t l = 0; l < W; ++l) v[l] = load<T>(reinterpret_cast<const T*>(in + l * stride + i));
    transpose<T>(v);
    for (int64_t c = 0; c < kStep; ++c) x[i + c] = swapped(Complex<Vector<T>>{v[2 * c], v[2 * c + 1]}, swap);
  }
  for (; i < n; ++i) {
    Complex<Vector<T>> value{};
    for (int64_t l = 0; l < rows; ++l) {
      value.re[l] = in[l * stride + i].real();
      value.im[l] = in[l * stride + i].imag();
    }
    x[i] = swapped(value, swap);
  }
}

template <typename T>
void store_rows(const Complex<Vector<T>>* x, int64_t stride, int64_t rows, int64_t n, bool swap, T scale,
                std::complex<T>* out) {
  constexpr int64_t W = kLanes<T>, kStep = W / 2;
  int64_t i = 0;
  for (; rows == W && i + kStep <= n; i += kStep) {
    Vector<T> v[W];
    for (int64_t c = 0; c < kStep; ++c) {
      const Complex<Vector<T>> value = swapped(x[i + c], swap).scaled(scale);
      v[2 * c] = value.re;
      v[2 * c + 1] = value.im;
    }
    transpose<T>(v);
    for (int64_t l = 0; l < W; ++l) store<T>(v[l], reinterpret_cast<T*>(out + l * stride + i));
  }
  for (; i < n; ++i) {
    const Complex<Vector<T>> value = swapped(x[i], swap).scaled(scale);
    for (int64_t l = 0; l < rows; ++l) out[l * stride + i] = {value.re[l], value.im[l]};
  }
}

template <typename T>
void load_columns(const std::complex<T>* in, int64_t stride, int64_t columns, int64_t n, bool swap,
                  Complex<Vector<T>>* x) {
  constexpr int64_t W = kLanes<T>;
  for (int64_t i = 0; i < n; ++i, in += stride) {
    Complex<Vector<T>> value{};
    if (columns == W) {
      const T* from = reinterpret_cast<const T*>(in);
      const Vector<T> a = load<T>(from), b = load<T>(from + W);
      value = {__builtin_shuffle(a, b, Shuffles<T>::even), __builtin_shuffle(a, b, Shuffles<T>::odd)};
    } else {
      for (int64_t l = 0; l < columns; ++l) {
        value.re[l] = in[l].real();
        value.im[l] = in[l].imag();
      }
    }
    x[i] = swapped(value, swap);
  }
}

template <typename T>
void store_columns(const Complex<Vector<T>>* x, int64_t stride, int64_t columns, int64_t n, bool swap, T scale,
                   std::complex<T>* out) {
  constexpr int64_t W = kLanes<T>;
  for (int64_t i = 0; i < n; ++i, out += stride) {
    const Complex<Vector<T>> value = swapped(x[i], swap).scaled(scale);
    if (columns == W) {
      T* to = reinterpret_cast<T*>(out);
      store<T>(__builtin_shuffle(value.re, value.im, Shuffles<T>::low), to);
      store<T>(__builtin_shuffle(value.re, value.im, Shuffles<T>::high), to + W);
    } else {
      for (int64_t l = 0; l < columns; ++l) out[l] = {value.re[l], value.im[l]};
    }
  }
}

}  // namespace thalweg::fourier
