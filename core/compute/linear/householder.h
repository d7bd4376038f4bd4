// A = Q R by Householder's reflections, for any m x n matrix of float, double, or complex numbers of them.
#pragma once

#include <cstdint>

namespace thalweg::linear {

// `a` is row-major [m, n]. With k = full ? m : min(m, n): `q` becomes [m, k], `r` becomes [k, n]. The diagonal of R has
// the signs that LAPACK gives it.
template <typename T>
void qr(const T* a, int64_t m, int64_t n, bool full, T* q, T* r);

}  // namespace thalweg::linear
