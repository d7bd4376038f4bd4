// The passes of a Fourier transform, for as many transforms at once as a vector has lanes.
//
// Real and imaginary parts are apart, so that no instruction crosses lanes. `V` is a vector of T, or T itself.
#pragma once

#include "compute/fourier/plan.h"
#include "compute/lanes/vectors.h"

namespace thalweg::fourier {

using lanes::kLanes;
using lanes::load;
using lanes::Shuffles;
using lanes::store;
using lanes::transpose;
using lanes::Vector;

// A complex number for each lane.
template <typename V>
struct Complex {
  V re, im;
  [[gnu::always_inline]] Complex operator+(const Complex& b) const { return {re + b.re, im + b.im}; }
  [[gnu::always_inline]] Complex operator-(const Complex& b) const { return {re - b.re, im - b.im}; }
  // Times -i.
  [[gnu::always_inline]] Complex turned() const { return {im, -re}; }
  template <typename T>
  [[gnu::always_inline]] Complex times(const std::complex<T>& w) const {
    return {re * w.real() - im * w.imag(), re * w.imag() + im * w.real()};
  }
  template <typename T>
  [[gnu::always_inline]] Complex scaled(T factor) const {
    return {re * factor, im * factor};
  }
};

template <int kRadix, typename T, typename V>
[[gnu::always_inline]] inline void butterfly(Complex<V>* a) {
  if constexpr (kRadix == 2) {
    const Complex<V> sum = a[0] + a[1];
    a[1] = a[0] - a[1];
    a[0] = sum;
  } else if constexpr (kRadix == 3) {
    const Complex<V> sum = a[1] + a[2], difference = (a[1] - a[2]).turned().scaled(T(0.86602540378443864676));
    const Complex<V> middle = a[0] - sum.scaled(T(0.5));
    a[0] = a[0] + sum;
    a[1] = middle + difference;
    a[2] = middle - difference;
  } else if constexpr (kRadix == 4) {
    const Complex<V> s02 = a[0] + a[2], d02 = a[0] - a[2], s13 = a[1] + a[3], d13 = (a[1] - a[3]).turned();
    a[0] = s02 + s13;
    a[1] = d02 + d13;
    a[2] = s02 - s13;
    a[3] = d02 - d13;
  } else {
    static_assert(kRadix == 5);
    const T c1 = T(0.30901699437494742410), c2 = T(-0.80901699437494742410);
    const T s1 = T(0.95105651629515357212), s2 = T(0.58778525229247312917);
    const Complex<V> s14 = a[1] + a[4], d14 = (a[1] - a[4]).turned(), s23 = a[2] + a[3], d23 = (a[2] - a[3]).turned();
    const Complex<V> m1 = a[0] + s14.scaled(c1) + s23.scaled(c2), m2 = a[0] + s14.scaled(c2) + s23.scaled(c1);
    const Complex<V> t1 = d14.scaled(s1) + d23.scaled(s2), t2 = d14.scaled(s2) - d23.scaled(s1);
    a[0] = a[0] + s14 + s23;
    a[1] = m1 + t1;
    a[4] = m1 - t1;
    a[2] = m2 + t2;
    a[3] = m2 - t2;
  }
}

// y[q + stride * (radix * p + k)] = (sum over j of x[q + stride * (p + count * j)] root^(j k)) * power(p, k).
template <int kRadix, typename T, typename V>
inline void pass_of(const typename Plan<T>::Pass& pass, int64_t stride, const Complex<V>* x, Complex<V>* y) {
  const int64_t far = stride * pass.count;
  for (int64_t p = 0; p < pass.count; ++p) {
    const std::complex<T>* powers = pass.powers.data() + p * (kRadix - 1);
    const Complex<V>* from = x + stride * p;
    Complex<V>* to = y + stride * kRadix * p;
    for (int64_t q = 0; q < stride; ++q) {
      Complex<V> a[kRadix];
      for (int j = 0; j < kRadix; ++j) a[j] = from[q + far * j];
      butterfly<kRadix, T>(a);
      to[q] = a[0];
      for (int k = 1; k < kRadix; ++k) to[q + stride * k] = pass.count == 1 ? a[k] : a[k].times(powers[k - 1]);
    }
  }
}

template <typename T, typename V>
inline void any_pass(const typename Plan<T>::Pass& pass, int64_t stride, const Complex<V>* x, Complex<V>* y) {
  const int64_t radix = pass.radix, far = stride * pass.count;
  for (int64_t p = 0; p < pass.count; ++p)
    for (int64_t q = 0; q < stride; ++q) {
      const Complex<V>* from = x + stride * p + q;
      for (int64_t k = 0; k < radix; ++k) {
        Complex<V> sum = from[0];
        for (int64_t j = 1, turn = k; j < radix; ++j) {
          sum = sum + from[far * j].times(pass.roots[turn]);
          turn += k;
          if (turn >= radix) turn -= radix;
        }
        if (k > 0) sum = sum.times(pass.powers[p * (radix - 1) + k - 1]);
        y[stride * (radix * p + k) + q] = sum;
      }
    }
}

// Transforms x, with y as long for what is in between; returns the one of them that holds the result.
template <typename T, typename V>
Complex<V>* run_passes(const Plan<T>& plan, Complex<V>* x, Complex<V>* y) {
  int64_t stride = 1;
  for (const auto& pass : plan.passes) {
    switch (pass.radix) {
      case 2:
        pass_of<2, T>(pass, stride, x, y);
        break;
      case 3:
        pass_of<3, T>(pass, stride, x, y);
        break;
      case 4:
        pass_of<4, T>(pass, stride, x, y);
        break;
      case 5:
        pass_of<5, T>(pass, stride, x, y);
        break;
      default:
        any_pass<T>(pass, stride, x, y);
    }
    std::swap(x, y);
    stride *= pass.radix;
  }
  return x;
}

}  // namespace thalweg::fourier
