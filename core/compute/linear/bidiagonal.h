// Bidiagonal matrices: how a matrix becomes one, and how it becomes diagonal.
#pragma once

#include <cstdint>

#include "compute/linear/rotations.h"

namespace thalweg::linear {

// A = Q B P^H for n lines of m >= n elements, the columns of A. B has the diagonal d and e above it. Line k becomes the
// vector of Q's reflection k from element k on; line k of `rows` [n, n] that of P's from element k + 1 on.
template <typename T>
void make_bidiagonal(T* a, int64_t m, int64_t n, double* d, double* e, T* left_taus, T* rows, T* right_taus,
                     bool parallel);

// B becomes diagonal, each singular value up to rounding errors of `eps`: implicit QR steps, also with a shift of zero.
// The rotations are applied to the lines of Q and of P, which may both be null. Signs and order are left as they come.
template <typename R>
bool diagonalize_bidiagonal(double* d, double* e, int64_t n, double eps, Rotations<R>* left, Rotations<R>* right);

}  // namespace thalweg::linear
