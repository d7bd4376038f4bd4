// Normal equations in double precision, refined once; singular values where those are not good enough.
#include "compute/linear/least_squares.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "compute/linear/factor.h"
#include "compute/linear/lines.h"
#include "compute/linear/singular.h"
#include "compute/matmul/gemm.h"

namespace thalweg::linear {
namespace {

template <typename T>
using Matrix = std::vector<T>;

// The adjoint of a row-major [rows, columns].
template <typename T>
Matrix<T> adjoint_of(const Matrix<T>& a, int64_t rows, int64_t columns) {
  Matrix<T> result(a.size());
  transpose_to(a.data(), rows, columns, result.data());
  if constexpr (is_complex<T>)
    for (T& x : result) x = std::conj(x);
  return result;
}

// c - a b for a row-major [rows, inner].
template <typename T>
Matrix<T> less_product(Matrix<T> c, const Matrix<T>& a, const Matrix<T>& b, int64_t rows, int64_t inner,
                       int64_t columns, bool parallel) {
  subtract_product(rows, columns, inner, a.data(), inner, b.data(), columns, c.data(), columns, parallel);
  return c;
}
template <typename T>
Matrix<T> product(const Matrix<T>& a, const Matrix<T>& b, int64_t rows, int64_t inner, int64_t columns, bool parallel) {
  if constexpr (!is_complex<T>) {
    Matrix<T> result(rows * columns);
    gemm<T>(rows, columns, inner, {0, inner, 1}, a.data(), {0, columns, 1}, b.data(), result.data(), parallel);
    return result;
  }
  Matrix<T> result = less_product(Matrix<T>(rows * columns), a, b, rows, inner, columns, parallel);
  for (T& x : result) x = -x;
  return result;
}

// X of A A^H X = B, in place, by Cholesky's factor.
template <typename T>
void solve_with_factor(const Matrix<T>& factor, int64_t n, Matrix<T>& x, int64_t columns, bool parallel) {
  solve_triangular<T>({.a = factor.data(), .n = n, .lower = true}, x.data(), columns, parallel);
  solve_triangular<T>({.a = factor.data(), .n = n, .lower = true, .adjoint = true}, x.data(), columns, parallel);
}

// False if A's rank is, or may be, less than n.
template <typename W>
bool by_normal_equations(const Matrix<W>& a, int64_t m, int64_t n, const Matrix<W>& b, int64_t columns,
                         double regularizer, Matrix<W>& x, bool parallel) {
  const bool is_wide = m < n;
  const int64_t size = std::min(m, n);
  const Matrix<W> adjoint = adjoint_of(a, m, n);
  Matrix<W> gram = is_wide ? product(a, adjoint, m, n, m, parallel) : product(adjoint, a, n, m, n, parallel);
  for (int64_t i = 0; i < size; ++i) gram[i * size + i] += regularizer;
  const Matrix<W> given = gram;
  if (!cholesky(gram.data(), size, parallel)) return false;
  double smallest = std::real(gram[0]), largest = smallest;
  for (int64_t i = 1; i < size; ++i) {
    smallest = std::min(smallest, std::real(gram[i * size + i]));
    largest = std::max(largest, std::real(gram[i * size + i]));
  }
  // Squares of condition numbers count here: up to some 1e4 the refined result is as good as any.
  if (smallest < 1e-4 * largest) return false;
  if (is_wide) {
    Matrix<W> y = b;
    solve_with_factor(gram, size, y, columns, parallel);
    Matrix<W> rest = less_product(b, given, y, m, m, columns, parallel);
    solve_with_factor(gram, size, rest, columns, parallel);
    for (size_t i = 0; i < y.size(); ++i) y[i] += rest[i];
    x = product(adjoint, y, n, m, columns, parallel);
  } else {
    x = product(adjoint, b, n, m, columns, parallel);
    solve_with_factor(gram, size, x, columns, parallel);
    Matrix<W> rest = product(adjoint, less_product(b, a, x, m, n, columns, parallel), n, m, columns, parallel);
    for (size_t i = 0; i < x.size(); ++i) rest[i] -= regularizer * x[i];
    solve_with_factor(gram, size, rest, columns, parallel);
    for (size_t i = 0; i < x.size(); ++i) x[i] += rest[i];
  }
  return std::all_of(x.begin(), x.end(), [](W v) { return std::isfinite(std::abs(v)); });
}

}  // namespace

template <typename T>
bool least_squares(const T* a, int64_t m, int64_t n, const T* b, int64_t columns, double regularizer, bool fast, T* x,
                   bool parallel) {
  using W = std::conditional_t<is_complex<T>, std::complex<double>, double>;
  if (fast && (regularizer > 0 || m >= n)) {
    Matrix<W> result;
    if (by_normal_equations(Matrix<W>(a, a + m * n), m, n, Matrix<W>(b, b + m * columns), columns, regularizer, result,
                            parallel)) {
      for (int64_t i = 0; i < n * columns; ++i) x[i] = static_cast<T>(result[i]);
      return true;
    }
  }
  const int64_t p = std::min(m, n);
  Matrix<T> s(p), u(m * p), v(n * p);
  if (!singular_values(a, m, n, false, s.data(), u.data(), v.data(), parallel)) return false;
  Matrix<T> y = product(adjoint_of(u, m, p), Matrix<T>(b, b + m * columns), p, m, columns, parallel);
  const double least = std::numeric_limits<Real<T>>::epsilon() * static_cast<double>(std::max(m, n));
  for (int64_t i = 0; i < p; ++i) {
    const double value = std::real(s[i]), first = std::real(s[0]);
    const double factor = fast && regularizer > 0 ? value / (value * value + regularizer)
                          : value > least * first ? 1 / value
                                                  : 0;
    for (int64_t c = 0; c < columns; ++c) y[i * columns + c] *= static_cast<Real<T>>(factor);
  }
  const Matrix<T> result = product(v, y, n, p, columns, parallel);
  std::copy(result.begin(), result.end(), x);
  return true;
}

#define THALWEG_INSTANTIATE(T) \
  template bool least_squares(const T*, int64_t, int64_t, const T*, int64_t, double, bool, T*, bool);
THALWEG_INSTANTIATE(float)
THALWEG_INSTANTIATE(double)
THALWEG_INSTANTIATE(std::complex<float>)
THALWEG_INSTANTIATE(std::complex<double>)
#undef THALWEG_INSTANTIATE

}  // namespace thalweg::linear
