// Householder's reflections I - tau v v^H, one at a time or in blocks, and A = Q R by them.
//
// Matrices of float, double, or complex numbers of them lie as lines: a column without gaps, then the next. A vector v
// begins with 1. Results do not depend on the number of threads.
#pragma once

#include <cstdint>
#include <vector>

#include "compute/linear/lines.h"

namespace thalweg::linear {

// At most so many reflections are applied together.
constexpr int64_t kReflections = 32;
// How many, from both sides of a matrix with n columns: fewer where lines are short.
constexpr int64_t reflections_together(int64_t n) {
  return n <= 8 ? std::max<int64_t>(n, 1) : n <= 64 ? 8 : n <= 192 ? 16 : kReflections;
}

// Turns x into (beta, 0, ..., 0) with a real beta by I - conj(tau) v v^H: v replaces x but for v[0], which is beta.
// Also for elements whose squares leave the range.
template <typename T>
T reflector(T* x, int64_t n);

// y -= tau v (v^H y) for `count` lines y, `stride` apart; v[0] counts as 1.
template <typename T>
void reflect(const T* v, T tau, T* y, int64_t n, int64_t stride, int64_t count);

// The product H1 H2 ... of at most kReflections reflections, as I - V T V^H.
template <typename T>
class ReflectionBlock {
 public:
  // Of vectors v + j * stride that end at element n; vector j begins at element j.
  ReflectionBlock(const T* v, int64_t stride, const T* taus, int64_t count, int64_t n);
  // Applies it, or its adjoint, to `lines` lines of n elements.
  void apply(T* y, int64_t stride, int64_t lines, bool adjoint, bool parallel) const;

 private:
  const int64_t count_, n_;
  std::vector<T> rows_;           // V as lines.
  std::vector<T> columns_;        // conj(V), [n][count].
  std::vector<T> t_, t_adjoint_;  // What the products with V are multiplied by, [count][count].
};

// Reflections with the vectors v + j * stride, of which vector j begins at element j + shift of its line.
template <typename T>
struct Reflections {
  const T* v = nullptr;
  int64_t stride = 0, shift = 0, count = 0;
  const T* taus = nullptr;
};
// Lines of n elements become H1 H2 ... times themselves. With `unit_lines` they are those of the identity.
template <typename T>
void apply_reflections(const Reflections<T>& h, T* y, int64_t n, int64_t lines, bool unit_lines, bool parallel);

// Columns of A as lines, m elements each, become R on and above the diagonal, and the vectors of the reflections below.
template <typename T>
void factor_qr(T* a, int64_t m, int64_t n, T* taus, bool parallel);

// `a` is row-major [m, n]. With k = full ? m : min(m, n): `q` becomes [m, k], `r` becomes [k, n]. The diagonal of R has
// the signs that LAPACK gives it.
template <typename T>
void qr(const T* a, int64_t m, int64_t n, bool full, T* q, T* r, bool parallel);

}  // namespace thalweg::linear
