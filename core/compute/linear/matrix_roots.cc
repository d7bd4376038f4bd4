// Square roots and logarithms: those of a triangular matrix, between the two sides of Schur's form.
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "compute/linear/factor.h"
#include "compute/linear/lines.h"
#include "compute/linear/matrix_functions.h"
#include "compute/linear/schur.h"

namespace thalweg::linear {
namespace {

using Complex = std::complex<double>;
using Matrix = std::vector<Complex>;

// The root of an upper triangular matrix with columns as lines. False where a sum of two roots is zero and should not
// be.
bool triangular_root(const Matrix& t, int64_t n, Matrix& root) {
  root.assign(n * n, Complex(0));
  std::vector<Complex> row(n);
  for (int64_t i = n - 1; i >= 0; --i) {
    row.assign(n, Complex(0));
    row[i] = root[i * n + i] = std::sqrt(t[i * n + i]);
    for (int64_t j = i + 1; j < n; ++j) {
      // The root's column j is known below row i, and its row i up to column j.
      const Complex left = t[j * n + i] - dot(row.data() + i + 1, root.data() + j * n + i + 1, j - i - 1);
      const Complex divisor = row[i] + root[j * n + j];
      if (divisor == 0.0 && left != 0.0) return false;
      row[j] = root[j * n + i] = divisor == 0.0 ? Complex(0) : left / divisor;
    }
  }
  return true;
}

// Nodes and weights of Gauss' quadrature over [0, 1]: zeros of Legendre's polynomial.
constexpr int kNodes = 8;
struct Quadrature {
  std::array<double, kNodes> nodes, weights;
  Quadrature() {
    for (int i = 0; i < kNodes; ++i) {
      double x = std::cos(std::numbers::pi * (i + 0.75) / (kNodes + 0.5)), slope = 0;
      for (int turn = 0; turn < 20; ++turn) {
        double before = 1, value = x;
        for (int k = 2; k <= kNodes; ++k) {
          const double next = ((2 * k - 1) * x * value - (k - 1) * before) / k;
          before = value;
          value = next;
        }
        slope = kNodes * (x * value - before) / (x * x - 1);
        x -= value / slope;
      }
      nodes[i] = (1 + x) / 2;
      weights[i] = 1 / ((1 - x * x) * slope * slope);
    }
  }
};

// The logarithm of an upper triangular matrix: that of I + X for a root so high that X is small, doubled as often.
bool triangular_logarithm(Matrix t, int64_t n, Matrix& result) {
  const Matrix given = t;
  for (int64_t i = 0; i < n; ++i)
    if (t[i * n + i] == 0.0) return false;
  int roots = 0;
  for (Matrix root;; ++roots) {
    double norm = 0;
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t i = 0; i <= j; ++i) sum += std::abs(t[j * n + i] - (i == j ? 1.0 : 0.0));
      norm = std::max(norm, sum);
    }
    if (norm < 0.25) break;
    if (roots == 100 || !std::isfinite(norm) || !triangular_root(t, n, root)) return false;
    t.swap(root);
  }
  // log(I + X) is the integral of X (I + x X)^-1 over [0, 1]. Rows here: the solver takes them so.
  Matrix x(n * n), system(n * n), part;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) x[i * n + j] = t[j * n + i] - (i == j ? 1.0 : 0.0);
  Matrix rows(n * n);
  static const Quadrature quadrature;
  for (int k = 0; k < kNodes; ++k) {
    for (int64_t i = 0; i < n * n; ++i) system[i] = quadrature.nodes[k] * x[i];
    for (int64_t i = 0; i < n; ++i) system[i * n + i] += 1.0;
    part = x;
    solve_triangular<Complex>({.a = system.data(), .n = n, .lower = false}, part.data(), n, false);
    for (int64_t i = 0; i < n * n; ++i) rows[i] += quadrature.weights[k] * part[i];
  }
  result.resize(n * n);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      result[j * n + i] = i == j ? std::log(given[i * n + i]) : std::ldexp(1.0, roots) * rows[i * n + j];
  return true;
}

// Q F(T) Q^H for a function of triangular matrices.
template <typename Function>
bool by_schur(const Complex* a, int64_t n, Complex* result, const Function& function) {
  Matrix lines(n * n), q(n * n), image;
  transpose_to(a, n, n, lines.data());
  if (!schur(lines.data(), n, q.data()) || !function(lines, n, image)) return false;
  // With rows: result = Q (F Q^H). `image` and q are lines: transposed matrices.
  Matrix f(n * n), q_rows(n * n), adjoint(n * n), product(n * n);
  transpose_to(image.data(), n, n, f.data());
  transpose_to(q.data(), n, n, q_rows.data());
  for (int64_t i = 0; i < n * n; ++i) adjoint[i] = -std::conj(q[i]);
  subtract_product(n, n, n, f.data(), n, adjoint.data(), n, product.data(), n, false);
  for (Complex& x : product) x = -x;
  std::fill(result, result + n * n, Complex(0));
  subtract_product(n, n, n, q_rows.data(), n, product.data(), n, result, n, false);
  return true;
}

}  // namespace

bool matrix_square_root(const Complex* a, int64_t n, Complex* result) {
  return by_schur(a, n, result, triangular_root);
}
bool matrix_logarithm(const Complex* a, int64_t n, Complex* result) {
  return by_schur(a, n, result, triangular_logarithm);
}

}  // namespace thalweg::linear
