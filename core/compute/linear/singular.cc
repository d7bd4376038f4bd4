// The order of work: scale, QR first if the matrix is tall, make bidiagonal, multiply reflections out, iterate, sort.
#include "compute/linear/singular.h"

#include <numeric>

#include "compute/linear/bidiagonal.h"
#include "compute/linear/householder.h"
#include "compute/linear/scale.h"

namespace thalweg::linear {
namespace {

// Lines of length m that begin with n lines of length n, and go on with those of the identity.
template <typename T>
std::vector<T> extended(const std::vector<T>& lines, int64_t n, int64_t m, int64_t count) {
  std::vector<T> result(count * m);
  for (int64_t j = 0; j < n; ++j) std::copy_n(lines.data() + j * n, n, result.data() + j * m);
  for (int64_t j = n; j < count; ++j) result[j * m + j] = T(1);
  return result;
}

template <typename T>
std::vector<T> identity(int64_t count, int64_t length) {
  std::vector<T> result(count * length);
  for (int64_t j = 0; j < count; ++j) result[j * length + j] = T(1);
  return result;
}

// For m >= n: `lines` are the columns of A, and u and v become lines, too: min(m, kept) and n of them.
template <typename T>
bool decompose(std::vector<T>& lines, int64_t m, int64_t n, int64_t kept, double* d, std::vector<T>* u,
               std::vector<T>* v, bool parallel) {
  using R = Real<T>;
  constexpr int64_t kParts = is_complex<T> ? 2 : 1;
  const bool is_tall = 5 * m >= 8 * n && n > 1;
  std::vector<T> tall, qr_taus(n), left_taus(n), right_taus(n), rows(n * n);
  std::vector<double> e(n);
  int64_t height = m;
  if (is_tall) {
    factor_qr(lines.data(), m, n, qr_taus.data(), parallel);
    tall.swap(lines);
    lines.resize(n * n);
    for (int64_t j = 0; j < n; ++j) std::copy_n(tall.data() + j * m, j + 1, lines.data() + j * n);
    height = n;
  }
  make_bidiagonal(lines.data(), height, n, d, e.data(), left_taus.data(), rows.data(), right_taus.data(), parallel);
  const double eps = std::numeric_limits<R>::epsilon() / 2;
  if (u == nullptr) {
    if (!diagonalize_bidiagonal<R>(d, e.data(), n, eps, nullptr, nullptr)) return false;
    for (int64_t i = 0; i < n; ++i) d[i] = std::fabs(d[i]);
    std::sort(d, d + n, std::greater<>());
    return true;
  }
  *u = identity<T>(is_tall ? n : kept, height);
  *v = identity<T>(n, n);
  const int64_t left_lines = static_cast<int64_t>(u->size()) / height;
  apply_reflections<T>({lines.data(), height, 0, n, left_taus.data()}, u->data(), height, left_lines, true, parallel);
  apply_reflections<T>({rows.data(), n, 1, n - 1, right_taus.data()}, v->data(), n, n, true, parallel);
  Rotations<R> left(reinterpret_cast<R*>(u->data()), n, height * kParts, parallel);
  Rotations<R> right(reinterpret_cast<R*>(v->data()), n, n * kParts, parallel);
  if (!diagonalize_bidiagonal(d, e.data(), n, eps, &left, &right)) return false;
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), int64_t{0});
  for (int64_t i = 0; i < n; ++i) {
    if (std::signbit(d[i])) right.negate(i);
    d[i] = std::fabs(d[i]);
  }
  std::stable_sort(order.begin(), order.end(), [&](int64_t x, int64_t y) { return d[x] > d[y]; });
  std::stable_sort(d, d + n, std::greater<>());
  left.finish(order);
  right.finish(order);
  if (is_tall) {
    *u = extended(*u, n, m, kept);
    apply_reflections<T>({tall.data(), m, 0, n, qr_taus.data()}, u->data(), m, kept, false, parallel);
  }
  return true;
}

}  // namespace

template <typename T>
bool singular_values(const T* a, int64_t m, int64_t n, bool full, T* s, T* u, T* v, bool parallel) {
  const bool is_wide = m < n;
  const int64_t rows = std::max(m, n), columns = std::min(m, n), kept = full ? rows : columns;
  std::vector<T> lines(m * n), left, right;
  std::vector<double> d(columns);
  int shift = 0;
  bool converged = true;
  if (columns > 0) {
    // A wide matrix is decomposed as its adjoint, whose columns are the rows, conjugated.
    if (is_wide)
      std::transform(a, a + m * n, lines.begin(), [](T x) { return conjugate(x); });
    else
      transpose_to(a, m, n, lines.data());
    shift = scale_lines(lines.data(), m * n);
    converged = decompose(lines, rows, columns, kept, d.data(), u ? &left : nullptr, u ? &right : nullptr, parallel);
  } else {
    left = identity<T>(kept, rows);
  }
  if (!converged) return false;
  for (int64_t i = 0; i < columns; ++i) s[i] = T(static_cast<Real<T>>(std::scalbn(d[i], -shift)));
  if (u == nullptr) return true;
  transpose_to(left.data(), kept, rows, is_wide ? v : u);
  transpose_to(right.data(), columns, columns, is_wide ? u : v);
  return true;
}

#define THALWEG_INSTANTIATE(T) template bool singular_values(const T*, int64_t, int64_t, bool, T*, T*, T*, bool);
THALWEG_INSTANTIATE(float)
THALWEG_INSTANTIATE(double)
THALWEG_INSTANTIATE(std::complex<float>)
THALWEG_INSTANTIATE(std::complex<double>)
#undef THALWEG_INSTANTIATE

}  // namespace thalweg::linear
