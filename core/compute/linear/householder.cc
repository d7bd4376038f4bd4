// QR: columns lie without gaps while they are reflected, so that each reflection is a sum and a difference of lines.
#include "compute/linear/householder.h"

#include <cmath>
#include <vector>

#include "compute/linear/lines.h"

namespace thalweg::linear {
namespace {

template <typename T>
double norm_of(const T* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double re = std::real(x[i]), im = std::imag(x[i]);
    sum += re * re + im * im;
  }
  return std::sqrt(sum);
}

// Turns x into (beta, 0, ..., 0) by I - tau v v^H: v replaces x, with v[0] = 1 implied and beta in its place.
template <typename T>
T reflector(T* x, int64_t n) {
  const double rest = norm_of(x + 1, n - 1);
  const double re = std::real(x[0]), im = std::imag(x[0]);
  if (rest == 0 && im == 0) return T(0);
  const double beta = -std::copysign(std::hypot(std::hypot(re, im), rest), re);
  T tau;
  if constexpr (is_complex<T>)
    tau = T(static_cast<typename T::value_type>((beta - re) / beta), static_cast<typename T::value_type>(-im / beta));
  else
    tau = static_cast<T>((beta - re) / beta);
  const T scale = T(1) / (x[0] - static_cast<T>(beta));
  for (int64_t i = 1; i < n; ++i) x[i] = times(x[i], scale);
  x[0] = static_cast<T>(beta);
  return tau;
}

// y -= tau v (v^H y)
template <typename T>
void reflect(const T* v, T tau, T* y, int64_t n) {
  const T along = times(tau, y[0] + dot<true>(v + 1, y + 1, n - 1));
  y[0] -= along;
  subtract(along, v + 1, y + 1, n - 1);
}

// The same for `count` columns, `stride` apart: four real ones at a time share what is loaded of v.
template <typename T>
void reflect_all(const T* v, T tau, T* y, int64_t n, int64_t stride, int64_t count) {
  int64_t j = 0;
  if constexpr (!is_complex<T>) {
    using V = lanes::Vector<T>;
    constexpr int64_t W = lanes::kLanes<T>;
    for (; j + 4 <= count; j += 4, y += 4 * stride) {
      V sums[4] = {};
      int64_t i = 1;
      for (; i + W <= n; i += W) {
        const V part = lanes::load<T>(v + i);
        for (int c = 0; c < 4; ++c) sums[c] += part * lanes::load<T>(y + c * stride + i);
      }
      T along[4];
      for (int c = 0; c < 4; ++c) {
        T sum = y[c * stride];
        for (int64_t l = 0; l < W; ++l) sum += sums[c][l];
        for (int64_t k = i; k < n; ++k) sum += v[k] * y[c * stride + k];
        along[c] = tau * sum;
        y[c * stride] -= along[c];
      }
      for (i = 1; i + W <= n; i += W) {
        const V part = lanes::load<T>(v + i);
        for (int c = 0; c < 4; ++c) {
          T* to = y + c * stride + i;
          lanes::store<T>(lanes::load<T>(to) - along[c] * part, to);
        }
      }
      for (; i < n; ++i)
        for (int c = 0; c < 4; ++c) y[c * stride + i] -= along[c] * v[i];
    }
  }
  for (; j < count; ++j, y += stride) reflect(v, tau, y, n);
}

}  // namespace

template <typename T>
void qr(const T* a, int64_t m, int64_t n, bool full, T* q, T* r) {
  const int64_t count = std::min(m, n), kept = full ? m : count;
  std::vector<T> columns(m * n), taus(count);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) columns[j * m + i] = a[i * n + j];
  for (int64_t k = 0; k < count; ++k) {
    T* v = columns.data() + k * m + k;
    taus[k] = reflector(v, m - k);
    if (taus[k] != T(0)) reflect_all(v, conjugate(taus[k]), columns.data() + (k + 1) * m + k, m - k, m, n - k - 1);
  }
  for (int64_t i = 0; i < kept; ++i)
    for (int64_t j = 0; j < n; ++j) r[i * n + j] = i <= j ? columns[j * m + i] : T(0);
  // Q's columns: the reflections of those of the identity, from the last one on.
  std::vector<T> lines(m * kept, T(0));
  for (int64_t j = 0; j < kept; ++j) lines[j * m + j] = T(1);
  for (int64_t k = count - 1; k >= 0; --k)
    if (taus[k] != T(0)) reflect_all(columns.data() + k * m + k, taus[k], lines.data() + k * m + k, m - k, m, kept - k);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < kept; ++j) q[i * kept + j] = lines[j * m + i];
}

#define THALWEG_INSTANTIATE(T) template void qr(const T*, int64_t, int64_t, bool, T*, T*);
THALWEG_INSTANTIATE(float)
THALWEG_INSTANTIATE(double)
THALWEG_INSTANTIATE(std::complex<float>)
THALWEG_INSTANTIATE(std::complex<double>)
#undef THALWEG_INSTANTIATE

}  // namespace thalweg::linear
