// Reflections from both sides, by blocks: half of the work is products of matrices, half are products with vectors.
#include "compute/linear/bidiagonal.h"
#include "compute/linear/householder.h"
#include "thread/parallel.h"

namespace thalweg::linear {
namespace {

// line -= the sum of conj(y[q * y_stride]) times line q of u.
template <typename T>
void subtract_lines(const T* y, int64_t y_stride, const T* u, int64_t u_stride, int64_t count, T* line, int64_t n) {
  T factors[kReflections];
  for (int64_t q = 0; q < count; ++q) factors[q] = -conjugate(y[q * y_stride]);
  add_combination(factors, u, u_stride, count, line, n);
}

// to -= the sum of line q of y times (line q of u)^H x.
template <typename T>
void subtract_projection(const T* y, int64_t y_stride, const T* u, int64_t u_stride, int64_t count, const T* x,
                         int64_t x_size, T* to, int64_t n) {
  T factors[kReflections];
  project(u, u_stride, count, x, x_size, factors);
  for (int64_t q = 0; q < count; ++q) factors[q] = -factors[q];
  add_combination(factors, y, y_stride, count, to, n);
}

// The products with all that is left of A, which may be spread over threads.
int64_t grain(bool parallel, int64_t pieces, int64_t work) {
  return parallel ? std::max<int64_t>(1, 65536 / std::max<int64_t>(work, 1)) : pieces;
}
template <typename T>
void project_all(const T* a, int64_t stride, int64_t count, const T* x, int64_t n, T* sums, bool parallel) {
  constexpr int64_t kLines = 8;
  const int64_t pieces = (count + kLines - 1) / kLines;
  parallel_for(pieces, grain(parallel, pieces, kLines * n), [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kLines, last = std::min(count, end * kLines);
    project(a + first * stride, stride, last - first, x, n, sums + first);
  });
}
template <typename T>
void add_all(const T* factors, const T* x, int64_t stride, int64_t count, T* y, int64_t n, bool parallel) {
  constexpr int64_t kElements = 256;
  const int64_t pieces = (n + kElements - 1) / kElements;
  parallel_for(pieces, grain(parallel, pieces, kElements * count), [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kElements, last = std::min(n, end * kElements);
    add_combination(factors, x + first, stride, count, y + first, last - first);
  });
}

}  // namespace

template <typename T>
void make_bidiagonal(T* a, int64_t m, int64_t n, double* d, double* e, T* left_taus, T* rows, T* right_taus,
                     bool parallel) {
  // Within a block from p on, A is what is stored less U Y^H + X V^H: U are lines p... of a, V those of rows.
  const int64_t block = reflections_together(n);
  std::vector<T> y_lines(block * n), x_lines(block * m), factors, lines;
  for (int64_t p = 0; p < n; p += block) {
    const int64_t width = std::min(block, n - p);
    const T *us = a + p * m, *vs = rows + p * n;
    for (int64_t j = 0; j < width; ++j) {
      const int64_t k = p + j, right = k + 1, columns = n - right, below = m - right;
      T *u = a + k * m + k, *y = y_lines.data() + j * n + right;
      subtract_lines(y_lines.data() + k, n, us + k, m, j, u, m - k);
      subtract_lines(vs + k, n, x_lines.data() + k, m, j, u, m - k);
      left_taus[k] = reflector(u, m - k);
      d[k] = std::real(u[0]);
      u[0] = T(1);
      if (columns == 0) return;
      // Y's new line: tau A^H u.
      project_all(a + right * m + k, m, columns, u, m - k, y, parallel);
      subtract_projection(y_lines.data() + right, n, us + k, m, j, u, m - k, y, columns);
      subtract_projection(vs + right, n, x_lines.data() + k, m, j, u, m - k, y, columns);
      for (int64_t c = 0; c < columns; ++c) y[c] = times(y[c], left_taus[k]);
      // The row, conjugated, becomes the other vector.
      T *v = rows + k * n + right, *x = x_lines.data() + j * m + right;
      for (int64_t c = 0; c < columns; ++c) v[c] = conjugate(a[(right + c) * m + k]);
      subtract_lines(us + k, m, y_lines.data() + right, n, j + 1, v, columns);
      subtract_lines(x_lines.data() + k, m, vs + right, n, j, v, columns);
      right_taus[k] = reflector(v, columns);
      e[k] = std::real(v[0]);
      v[0] = T(1);
      // X's new line: tau A v.
      std::fill_n(x, below, T(0));
      add_all(v, a + right * m + right, m, columns, x, below, parallel);
      subtract_projection(us + right, m, y_lines.data() + right, n, j + 1, v, columns, x, below);
      subtract_projection(x_lines.data() + right, m, vs + right, n, j, v, columns, x, below);
      for (int64_t i = 0; i < below; ++i) x[i] = times(x[i], right_taus[k]);
    }
    const int64_t rest = p + width, columns = n - rest, below = m - rest;
    if (columns == 0) return;
    factors.resize(columns * 2 * width);
    lines.resize(2 * width * below);
    for (int64_t q = 0; q < width; ++q) {
      std::copy_n(us + q * m + rest, below, lines.data() + q * below);
      std::copy_n(x_lines.data() + q * m + rest, below, lines.data() + (width + q) * below);
      for (int64_t c = 0; c < columns; ++c) {
        factors[c * 2 * width + q] = conjugate(y_lines[q * n + rest + c]);
        factors[c * 2 * width + width + q] = conjugate(vs[q * n + rest + c]);
      }
    }
    subtract_product(columns, below, 2 * width, factors.data(), 2 * width, lines.data(), below, a + rest * m + rest, m,
                     parallel);
  }
}

#define THALWEG_INSTANTIATE(T) template void make_bidiagonal(T*, int64_t, int64_t, double*, double*, T*, T*, T*, bool);
THALWEG_INSTANTIATE(float)
THALWEG_INSTANTIATE(double)
THALWEG_INSTANTIATE(std::complex<float>)
THALWEG_INSTANTIATE(std::complex<double>)
#undef THALWEG_INSTANTIATE

}  // namespace thalweg::linear
