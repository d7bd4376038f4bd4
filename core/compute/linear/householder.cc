// Reflections and QR: each reflection is a sum and a difference of lines, a block of them two products of matrices.
#include "compute/linear/householder.h"

#include <cmath>

#include "thread/parallel.h"

namespace thalweg::linear {
namespace {

// Lines up to this length are reflected one vector at a time.
constexpr int64_t kShortLine = 64;
// Lines that are multiplied together.
constexpr int64_t kGroup = 48;

template <typename R>
double norm_of(const R* x, int64_t n) {
  double sum = 0;
  if constexpr (std::is_same_v<R, double>) {
    sum = dot(x, x, n);
  } else {
    double sums[8] = {};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
      for (int k = 0; k < 8; ++k) sums[k] += static_cast<double>(x[i + k]) * static_cast<double>(x[i + k]);
    for (; i < n; ++i) sums[0] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    for (double part : sums) sum += part;
    return std::sqrt(sum);
  }
  if (sum > 1e-280 && sum < 1e300) return std::sqrt(sum);
  // The squares leave the range, or all are zero, or some element is not finite.
  double largest = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max<double>(largest, std::abs(x[i]));
  if (largest == 0 || !std::isfinite(largest)) return largest == 0 && sum == 0 ? 0 : std::sqrt(sum);
  const int shift = -std::ilogb(largest);
  sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double scaled = std::scalbn(static_cast<double>(x[i]), shift);
    sum += scaled * scaled;
  }
  return std::scalbn(std::sqrt(sum), -shift);
}

}  // namespace

template <typename T>
T reflector(T* x, int64_t n) {
  using R = Real<T>;
  const double rest = norm_of(reinterpret_cast<const R*>(x + 1), (n - 1) * (is_complex<T> ? 2 : 1));
  const double re = std::real(x[0]), im = std::imag(x[0]);
  if (rest == 0 && im == 0) return T(0);
  const double beta = -std::copysign(std::hypot(std::hypot(re, im), rest), re);
  T tau, scale;
  if constexpr (is_complex<T>) {
    tau = T(static_cast<R>((beta - re) / beta), static_cast<R>(-im / beta));
    const std::complex<double> inverse = 1.0 / std::complex<double>(re - beta, im);
    scale = T(static_cast<R>(inverse.real()), static_cast<R>(inverse.imag()));
  } else {
    tau = static_cast<T>((beta - re) / beta);
    scale = static_cast<T>(1 / (re - beta));
  }
  for (int64_t i = 1; i < n; ++i) x[i] = times(x[i], scale);
  x[0] = T(static_cast<R>(beta));
  return tau;
}

template <typename T>
void reflect(const T* v, T tau, T* y, int64_t n, int64_t stride, int64_t count) {
  int64_t j = 0;
  for (; j + 4 <= count; j += 4, y += 4 * stride) {
    T along[4];
    dots<4, true>(y + 1, stride, v + 1, n - 1, along);
    for (int c = 0; c < 4; ++c) {
      along[c] = times(tau, y[c * stride] + conjugate(along[c]));
      y[c * stride] -= along[c];
    }
    subtract_from<4>(along, v + 1, y + 1, stride, n - 1);
  }
  for (; j < count; ++j, y += stride) {
    const T along = times(tau, y[0] + dot<true>(v + 1, y + 1, n - 1));
    y[0] -= along;
    subtract(along, v + 1, y + 1, n - 1);
  }
}

template <typename T>
ReflectionBlock<T>::ReflectionBlock(const T* v, int64_t stride, const T* taus, int64_t count, int64_t n)
    : count_(count), n_(n), rows_(count * n), columns_(count * n), t_(count * count), t_adjoint_(count * count) {
  for (int64_t j = 0; j < count; ++j) {
    T* row = rows_.data() + j * n;
    row[j] = T(1);
    std::copy(v + j * stride + j + 1, v + j * stride + n, row + j + 1);
  }
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < count; ++j) columns_[i * count + j] = conjugate(rows_[j * n + i]);
  // T is upper triangular: column j comes from the columns before it. t_ is its transpose.
  std::vector<T> along(count);
  for (int64_t j = 0; j < count; ++j) {
    for (int64_t q = 0; q < j; ++q) along[q] = dot<true>(rows_.data() + q * n + j, rows_.data() + j * n + j, n - j);
    for (int64_t l = 0; l < j; ++l) {
      T sum(0);
      for (int64_t q = l; q < j; ++q) sum += times(t_[q * count + l], along[q]);
      t_[j * count + l] = -times(taus[j], sum);
    }
    t_[j * count + j] = taus[j];
  }
  for (int64_t j = 0; j < count; ++j)
    for (int64_t l = 0; l < count; ++l) t_adjoint_[l * count + j] = conjugate(t_[j * count + l]);
}

template <typename T>
void ReflectionBlock<T>::apply(T* y, int64_t stride, int64_t lines, bool adjoint, bool parallel) const {
  const int64_t groups = (lines + kGroup - 1) / kGroup;
  parallel_for(groups, parallel ? 1 : groups, [&](int64_t begin, int64_t end) {
    std::vector<T> along(kGroup * count_), factors(kGroup * count_);
    for (int64_t group = begin; group < end; ++group) {
      const int64_t rows = std::min(kGroup, lines - group * kGroup);
      T* to = y + group * kGroup * stride;
      std::fill(along.begin(), along.end(), T(0));
      std::fill(factors.begin(), factors.end(), T(0));
      subtract_product(rows, count_, n_, to, stride, columns_.data(), count_, along.data(), count_, false);
      subtract_product(rows, count_, count_, along.data(), count_, (adjoint ? t_adjoint_ : t_).data(), count_,
                       factors.data(), count_, false);
      subtract_product(rows, n_, count_, factors.data(), count_, rows_.data(), n_, to, stride, false);
    }
  });
}

template <typename T>
void apply_reflections(const Reflections<T>& h, T* y, int64_t n, int64_t lines, bool unit_lines, bool parallel) {
  const int64_t step = n <= kShortLine ? 1 : kReflections;
  for (int64_t end = h.count; end > 0;) {
    const int64_t begin = (end - 1) / step * step, first = begin + h.shift, skipped = unit_lines ? first : 0;
    const T* v = h.v + begin * h.stride + first;
    T* from = y + skipped * n + first;
    if (step > 1)
      ReflectionBlock<T>(v, h.stride, h.taus + begin, end - begin, n - first)
          .apply(from, n, lines - skipped, false, parallel);
    else if (h.taus[begin] != T(0))
      reflect(v, h.taus[begin], from, n - first, n, lines - skipped);
    end = begin;
  }
}

template <typename T>
void factor_qr(T* a, int64_t m, int64_t n, T* taus, bool parallel) {
  const int64_t count = std::min(m, n), step = m <= kShortLine ? count : kReflections;
  for (int64_t p = 0; p < count; p += step) {
    const int64_t width = std::min(step, count - p), rest = p + width == count && step == count ? n : p + width;
    for (int64_t k = p; k < p + width; ++k) {
      T* v = a + k * m + k;
      taus[k] = reflector(v, m - k);
      if (taus[k] != T(0)) reflect(v, conjugate(taus[k]), v + m, m - k, m, rest - k - 1);
    }
    if (rest < n)
      ReflectionBlock<T>(a + p * m + p, m, taus + p, width, m - p).apply(a + rest * m + p, m, n - rest, true, parallel);
  }
}

template <typename T>
void qr(const T* a, int64_t m, int64_t n, bool full, T* q, T* r, bool parallel) {
  const int64_t count = std::min(m, n), kept = full ? m : count;
  std::vector<T> columns(m * n), taus(count), lines(m * kept);
  transpose_to(a, m, n, columns.data());
  factor_qr(columns.data(), m, n, taus.data(), parallel);
  for (int64_t j = 0; j < kept; ++j) lines[j * m + j] = T(1);
  apply_reflections<T>({columns.data(), m, 0, count, taus.data()}, lines.data(), m, kept, true, parallel);
  for (int64_t j = 0; j < n; ++j)
    if (j + 1 < m) std::fill(columns.data() + j * m + j + 1, columns.data() + (j + 1) * m, T(0));
  for (int64_t i = 0; i < kept; ++i)
    for (int64_t j = 0; j < n; ++j) r[i * n + j] = columns[j * m + i];
  transpose_to(lines.data(), kept, m, q);
}

#define THALWEG_INSTANTIATE(T)                                                              \
  template T reflector(T*, int64_t);                                                        \
  template void reflect(const T*, T, T*, int64_t, int64_t, int64_t);                        \
  template class ReflectionBlock<T>;                                                        \
  template void apply_reflections(const Reflections<T>&, T*, int64_t, int64_t, bool, bool); \
  template void factor_qr(T*, int64_t, int64_t, T*, bool);                                  \
  template void qr(const T*, int64_t, int64_t, bool, T*, T*, bool);
THALWEG_INSTANTIATE(float)
THALWEG_INSTANTIATE(double)
THALWEG_INSTANTIATE(std::complex<float>)
THALWEG_INSTANTIATE(std::complex<double>)
#undef THALWEG_INSTANTIATE

}  // namespace thalweg::linear
