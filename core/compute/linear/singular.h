// Singular values and vectors: reflections make a matrix bidiagonal, rotations diagonal.
#pragma once

#include <cstdint>

namespace thalweg::linear {

// A = U diag(s) V^H for a row-major matrix [m, n], all of it finite. With p = min(m, n): `s` [p] descends, `u` is
// [m, full ? m : p] and `v` [n, full ? n : p], row-major; both may be null. False if the iteration does not converge.
// Results do not depend on the number of threads.
template <typename T>
bool singular_values(const T* a, int64_t m, int64_t n, bool full, T* s, T* u, T* v, bool parallel);

}  // namespace thalweg::linear
