// Factorizations of square matrices, row-major and in place, and solutions of triangular systems.
//
// Matrices have n rows of n elements without gaps. Everything here works on one matrix; `parallel` lets a large one use
// several threads. Results do not depend on their number.
#pragma once

#include <cstdint>
#include <vector>

namespace thalweg::linear {

// A = L L^H of a Hermitian matrix, of which only the lower triangle is read; the upper one becomes zero. False if the
// matrix is not positive definite.
template <typename T>
bool cholesky(T* a, int64_t n, bool parallel);

// P A = L U with row exchanges, L below the diagonal, which is 1. order[i] is the row of A that row i of P A is.
// Columns without a pivot are left as they are: U has a zero on its diagonal then. Returns the sign of the permutation.
template <typename T>
int lu(T* a, int64_t n, std::vector<int64_t>& order, bool parallel);

// A triangular matrix, or its adjoint; what the other triangle holds is not read.
template <typename T>
struct Triangle {
  const T* a = nullptr;
  int64_t n = 0;
  bool lower = true, adjoint = false;
  bool unit = false;  // The diagonal counts as 1.
};
// X = op(A)^-1 X for X [n, columns], row-major.
template <typename T>
void solve_triangular(const Triangle<T>& t, T* x, int64_t columns, bool parallel);

}  // namespace thalweg::linear
