// The order of work: scale, make tridiagonal, multiply the reflections out, iterate, sort.
#include "compute/linear/self_adjoint.h"

#include <numeric>

#include "compute/linear/householder.h"
#include "compute/linear/plane_rotation.h"
#include "compute/linear/scale.h"
#include "thread/parallel.h"

namespace thalweg::linear {
namespace {

// y += A x for a Hermitian matrix of which line k holds the elements of column k from the diagonal on.
template <typename T>
void add_hermitian_product(const T* a, int64_t stride, int64_t n, const T* x, T* y) {
  constexpr int64_t W = kPerPack<T>;
  constexpr int kColumns = is_complex<T> ? 2 : 4;
  int64_t c = 0;
  for (; c + kColumns <= n; c += kColumns) {
    const T* lines[kColumns];
    T factors[kColumns], sums[kColumns];
    for (int r = 0; r < kColumns; ++r) {
      lines[r] = a + (c + r) * stride;
      factors[r] = x[c + r];
      sums[r] = T(0);
    }
    for (int r = 0; r < kColumns; ++r) {
      y[c + r] += times(T(std::real(lines[r][c + r])), factors[r]);
      for (int i = r + 1; i < kColumns; ++i) {
        y[c + i] += times(lines[r][c + i], factors[r]);
        sums[r] += times(conjugate(lines[r][c + i]), factors[i]);
      }
    }
    PackedDot<T> dots[kColumns];
    int64_t i = c + kColumns;
    for (; i + W <= n; i += W) {
      const Pack<T> part = load(x + i);
      Pack<T> sum = load(y + i);
#pragma GCC unroll 4
      for (int r = 0; r < kColumns; ++r) {
        const Pack<T> line = load(lines[r] + i);
        sum = plus_product<T>(sum, factors[r], line);
        dots[r].add(line, part);
      }
      store(sum, y + i);
    }
    for (int r = 0; r < kColumns; ++r) {
      sums[r] += dots[r].template sum<true>();
      for (int64_t rest = i; rest < n; ++rest) {
        y[rest] += times(lines[r][rest], factors[r]);
        sums[r] += times(conjugate(lines[r][rest]), x[rest]);
      }
      y[c + r] += sums[r];
    }
  }
  for (; c < n; ++c) {
    const T* line = a + c * stride;
    y[c] += times(T(std::real(line[c])), x[c]) + dot<true>(line + c + 1, x + c + 1, n - c - 1);
    subtract(-x[c], line + c + 1, y + c + 1, n - c - 1);
  }
}

// What is beside a block of reflections loses V W^H + W V^H, lines from `rest` on.
template <typename T>
void update_rest(T* a, int64_t n, int64_t rest, int64_t width, const T* v, const T* w, bool parallel) {
  const int64_t left = n - rest;
  std::vector<T> factors(left * 2 * width), lines(2 * width * left);
  for (int64_t q = 0; q < width; ++q) {
    std::copy_n(v + q * n + rest, left, lines.data() + q * left);
    std::copy_n(w + q * n + rest, left, lines.data() + (width + q) * left);
    for (int64_t c = 0; c < left; ++c) {
      factors[c * 2 * width + q] = conjugate(w[q * n + rest + c]);
      factors[c * 2 * width + width + q] = conjugate(v[q * n + rest + c]);
    }
  }
  constexpr int64_t kStrip = 48;
  const int64_t strips = (left + kStrip - 1) / kStrip;
  parallel_for(strips, parallel ? std::max<int64_t>(1, 65536 / (kStrip * left)) : strips,
               [&](int64_t begin, int64_t end) {
                 for (int64_t strip = begin; strip < end; ++strip) {
                   const int64_t c = strip * kStrip;
                   subtract_product(std::min(kStrip, left - c), left - c, 2 * width, factors.data() + c * 2 * width,
                                    2 * width, lines.data() + c, left, a + (rest + c) * n + rest + c, n, false);
                 }
               });
}

// Line k of `a` holds column k from the diagonal on, and then, from k + 1 on, the vector of reflection k, with its 1.
template <typename T>
void make_tridiagonal(T* a, int64_t n, double* d, double* e, T* taus, bool parallel) {
  const int64_t block = reflections_together(n);
  std::vector<T> w(block * n);
  T along_v[kReflections], along_w[kReflections];
  for (int64_t p = 0; p < n; p += block) {
    const int64_t width = std::min(block, n - p);
    const T* vs = a + p * n;
    for (int64_t j = 0; j < width; ++j) {
      const int64_t k = p + j, first = k + 1, left = n - first;
      T *column = a + k * n, *v = column + first, *product = w.data() + j * n + first;
      for (int64_t q = 0; q < j; ++q) {
        along_w[q] = -conjugate(w[q * n + k]);
        along_v[q] = -conjugate(vs[q * n + k]);
      }
      add_combination(along_w, vs + k, n, j, column + k, n - k);
      add_combination(along_v, w.data() + k, n, j, column + k, n - k);
      d[k] = std::real(column[k]);
      if (left == 0) return;
      taus[k] = reflector(v, left);
      e[k] = std::real(v[0]);
      v[0] = T(1);
      std::fill_n(product, left, T(0));
      if (taus[k] == T(0)) continue;
      add_hermitian_product(a + first * n + first, n, left, v, product);
      project(w.data() + first, n, j, v, left, along_w);
      project(vs + first, n, j, v, left, along_v);
      for (int64_t q = 0; q < j; ++q) {
        along_w[q] = -along_w[q];
        along_v[q] = -along_v[q];
      }
      add_combination(along_w, vs + first, n, j, product, left);
      add_combination(along_v, w.data() + first, n, j, product, left);
      for (int64_t i = 0; i < left; ++i) product[i] = times(product[i], taus[k]);
      subtract(times(taus[k] * T(0.5), dot<true>(product, v, left)), v, product, left);
    }
    if (p + width < n) update_rest(a, n, p + width, width, vs, w.data(), parallel);
  }
}

// One step of the QL iteration on the block of `size` at d and e, which lie `step` apart. Rotates lines from `line` on.
template <typename R>
void iterate(double* d, double* e, int64_t size, int64_t step, Rotations<R>* lines, int64_t line) {
  const auto D = [&](int64_t i) -> double& { return d[i * step]; };
  const auto E = [&](int64_t i) -> double& { return e[i * step]; };
  const int64_t last = size - 1;
  // The shift is the eigenvalue of the first two rows that is nearer to the first.
  double g = (D(1) - D(0)) / (2 * E(0));
  g = D(last) - D(0) + E(0) / (g + std::copysign(std::hypot(g, 1.0), g));
  double s = 1, c = 1, p = 0;
  if (lines) lines->begin_sweep(step > 0 ? line + last - 1 : line, step < 0);
  for (int64_t i = last - 1; i >= 0; --i) {
    const double f = s * E(i), b = c * E(i);
    const PlaneRotation rotation = rotation_of(g, f);
    c = rotation.c;
    s = rotation.s;
    if (i != last - 1) E(i + 1) = rotation.r;
    g = D(i + 1) - p;
    const double r = (D(i) - g) * s + 2 * c * b;
    p = s * r;
    D(i + 1) = g + p;
    g = c * r - b;
    if (lines) lines->add(c, step > 0 ? -s : s);
  }
  D(0) -= p;
  E(0) = g;
}

}  // namespace

template <typename R>
bool diagonalize(double* d, double* e, int64_t n, double eps, Rotations<R>* lines) {
  const auto negligible = [&](int64_t i) {
    const double size = std::fabs(e[i]);
    return size * size <= eps * eps * std::fabs(d[i]) * std::fabs(d[i + 1]) || size < 1e-290;
  };
  int64_t block_end = -1, iterations = 0;
  bool forwards = true;
  for (int64_t begin = 0; begin < n;) {
    int64_t end = begin;
    while (end + 1 < n && !negligible(end)) ++end;
    if (end + 1 < n) e[end] = 0;
    if (end == begin) {
      ++begin;
      continue;
    }
    // The iteration finds small values first: it begins where they are.
    if (begin > block_end) forwards = std::fabs(d[end]) >= std::fabs(d[begin]);
    if (begin > block_end || end < block_end) block_end = end;
    if (++iterations > 50 * n + 100) return false;
    if (forwards)
      iterate(d + begin, e + begin, end - begin + 1, 1, lines, begin);
    else
      iterate(d + end, e + end - 1, end - begin + 1, -1, lines, begin);
  }
  return true;
}

template <typename T>
bool self_adjoint_eigen(const T* a, int64_t n, T* values, T* vectors, bool parallel) {
  using R = Real<T>;
  if (n == 0) return true;
  std::vector<T> lines(n * n), taus(n);
  std::vector<double> d(n), e(n);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k <= i; ++k) lines[k * n + i] = a[i * n + k];
  const int shift = scale_lines(lines.data(), n * n);
  make_tridiagonal(lines.data(), n, d.data(), e.data(), taus.data(), parallel);
  const double eps = std::numeric_limits<R>::epsilon() / 2;
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto sort = [&] {
    std::stable_sort(order.begin(), order.end(), [&](int64_t x, int64_t y) { return d[x] < d[y]; });
  };
  if (vectors == nullptr) {
    if (!diagonalize<R>(d.data(), e.data(), n, eps, nullptr)) return false;
    sort();
  } else {
    std::vector<T> q(n * n);
    for (int64_t i = 0; i < n; ++i) q[i * n + i] = T(1);
    apply_reflections<T>({lines.data(), n, 1, n - 1, taus.data()}, q.data(), n, n, true, parallel);
    Rotations<R> rotations(reinterpret_cast<R*>(q.data()), n, is_complex<T> ? 2 * n : n, parallel);
    if (!diagonalize(d.data(), e.data(), n, eps, &rotations)) return false;
    sort();
    rotations.finish(order);
    transpose_to(q.data(), n, n, vectors);
  }
  for (int64_t i = 0; i < n; ++i) values[i] = T(static_cast<R>(std::scalbn(d[order[i]], -shift)));
  return true;
}

#define THALWEG_INSTANTIATE(T) template bool self_adjoint_eigen(const T*, int64_t, T*, T*, bool);
THALWEG_INSTANTIATE(float)
THALWEG_INSTANTIATE(double)
THALWEG_INSTANTIATE(std::complex<float>)
THALWEG_INSTANTIATE(std::complex<double>)
#undef THALWEG_INSTANTIATE

}  // namespace thalweg::linear
