// Winograd's transforms for F(4x4, 3x3): four outputs of a 3-tap filter from six inputs with six multiplications.
//
// In two dimensions a tile of 6 by 6 inputs gives 4 by 4 outputs with 36 multiplications instead of 144 (Lavin and
// Gray, "Fast Algorithms for Convolutional Neural Networks", 2015; the points are 0, 1, -1, 2, -2 and infinity):
//
//     y = A' [ (G g G') . (B' d B) ] A
//
// Each function here is one of the matrices times a column, for eight channels at a time; `in` and `out` are strided.
// The adjoints (A times, G' times) serve the gradient with respect to the filter.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace thalweg::winograd {

constexpr int kIn = 6;   // a tile's inputs in each dimension
constexpr int kOut = 4;  // its outputs
constexpr int kPoints = kIn * kIn;

using Vector = __m256;

inline Vector times(float k, Vector v) { return _mm256_mul_ps(_mm256_set1_ps(k), v); }
inline Vector plus(Vector a, Vector b) { return _mm256_add_ps(a, b); }
inline Vector minus(Vector a, Vector b) { return _mm256_sub_ps(a, b); }
// a + k * b
inline Vector plus_times(Vector a, float k, Vector b) { return _mm256_fmadd_ps(_mm256_set1_ps(k), b, a); }

// B' times six.
inline void input_column(const Vector* in, int in_stride, Vector* out, int out_stride) {
  const Vector d0 = in[0], d1 = in[in_stride], d2 = in[2 * in_stride], d3 = in[3 * in_stride], d4 = in[4 * in_stride],
               d5 = in[5 * in_stride];
  const Vector even = plus_times(d4, -4, d2), odd = plus_times(d3, -4, d1);
  const Vector even_2 = minus(d4, d2), odd_2 = times(2, minus(d3, d1));
  out[0] = plus_times(plus_times(d4, 4, d0), -5, d2);
  out[out_stride] = plus(even, odd);
  out[2 * out_stride] = minus(even, odd);
  out[3 * out_stride] = plus(even_2, odd_2);
  out[4 * out_stride] = minus(even_2, odd_2);
  out[5 * out_stride] = plus_times(plus_times(d5, 4, d1), -5, d3);
}

// A' times six.
inline void output_column(const Vector* in, int in_stride, Vector* out, int out_stride) {
  const Vector m0 = in[0], m1 = in[in_stride], m2 = in[2 * in_stride], m3 = in[3 * in_stride], m4 = in[4 * in_stride],
               m5 = in[5 * in_stride];
  const Vector sum_1 = plus(m1, m2), difference_1 = minus(m1, m2), sum_2 = plus(m3, m4), difference_2 = minus(m3, m4);
  out[0] = plus(plus(m0, sum_1), sum_2);
  out[out_stride] = plus_times(difference_1, 2, difference_2);
  out[2 * out_stride] = plus_times(sum_1, 4, sum_2);
  out[3 * out_stride] = plus(plus_times(difference_1, 8, difference_2), m5);
}

// A times four.
inline void output_column_adjoint(const Vector* in, int in_stride, Vector* out, int out_stride) {
  const Vector y0 = in[0], y1 = in[in_stride], y2 = in[2 * in_stride], y3 = in[3 * in_stride];
  const Vector even = plus(y0, y2), odd = plus(y1, y3);
  const Vector even_2 = plus_times(y0, 4, y2), odd_2 = plus_times(times(2, y1), 8, y3);
  out[0] = y0;
  out[out_stride] = plus(even, odd);
  out[2 * out_stride] = minus(even, odd);
  out[3 * out_stride] = plus(even_2, odd_2);
  out[4 * out_stride] = minus(even_2, odd_2);
  out[5 * out_stride] = y3;
}

// G times three.
inline void filter_column(const Vector* in, int in_stride, Vector* out, int out_stride) {
  const Vector g0 = in[0], g1 = in[in_stride], g2 = in[2 * in_stride];
  const Vector outer = times(-1.0f / 6, plus(g0, g2)), inner = times(1.0f / 6, g1);
  const Vector outer_2 = plus_times(times(1.0f / 24, g0), 1.0f / 6, g2), inner_2 = times(1.0f / 12, g1);
  out[0] = times(0.25f, g0);
  out[out_stride] = minus(outer, inner);
  out[2 * out_stride] = plus(outer, inner);
  out[3 * out_stride] = plus(outer_2, inner_2);
  out[4 * out_stride] = minus(outer_2, inner_2);
  out[5 * out_stride] = g2;
}

// G' times six.
inline void filter_column_adjoint(const Vector* in, int in_stride, Vector* out, int out_stride) {
  const Vector u0 = in[0], u1 = in[in_stride], u2 = in[2 * in_stride], u3 = in[3 * in_stride], u4 = in[4 * in_stride],
               u5 = in[5 * in_stride];
  const Vector sum_1 = plus(u1, u2), sum_2 = plus(u3, u4);
  out[0] = plus_times(plus_times(times(0.25f, u0), -1.0f / 6, sum_1), 1.0f / 24, sum_2);
  out[out_stride] = plus_times(times(1.0f / 6, minus(u2, u1)), 1.0f / 12, minus(u3, u4));
  out[2 * out_stride] = plus(plus_times(times(-1.0f / 6, sum_1), 1.0f / 6, sum_2), u5);
}

// M x M' for a square of columns: kFrom by kFrom in, kTo by kTo out, both row-major.
template <int kFrom, int kTo, void (*kColumn)(const Vector*, int, Vector*, int)>
inline void transform(const Vector* in, Vector* out) {
  Vector half[kTo * kFrom];
  for (int j = 0; j < kFrom; ++j) kColumn(in + j, kFrom, half + j, kFrom);
  for (int i = 0; i < kTo; ++i) kColumn(half + i * kFrom, 1, out + i * kTo, 1);
}

}  // namespace thalweg::winograd
