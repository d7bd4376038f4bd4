// Eigenvalues and eigenvectors of Hermitian matrices: reflections make them tridiagonal, rotations diagonal.
#pragma once

#include <cstdint>
#include <vector>

#include "compute/linear/rotations.h"

namespace thalweg::linear {

// `a` is row-major [n, n], all of it finite; only the lower triangle is read. Values ascend; the vectors are columns of
// `vectors`, row-major, which may be null. False if the iteration does not converge. Results do not depend on threads.
template <typename T>
bool self_adjoint_eigen(const T* a, int64_t n, T* values, T* vectors, bool parallel);

// A tridiagonal matrix with the diagonal d and what is beside it, e, becomes diagonal, up to rounding errors of `eps`.
// The rotations are applied to lines, which are eigenvectors at the end if they began as those of the identity.
template <typename R>
bool diagonalize(double* d, double* e, int64_t n, double eps, Rotations<R>* lines);

}  // namespace thalweg::linear
