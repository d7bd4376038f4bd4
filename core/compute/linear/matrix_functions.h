// Functions of square matrices: the exponential, the square root, the logarithm.
//
// Matrices are row-major [n, n], and all of their elements finite. Computed in double precision, whatever the type.
#pragma once

#include <complex>
#include <cstdint>

namespace thalweg::linear {

// e^A, for float, double, or complex numbers of them.
template <typename T>
void matrix_exponential(const T* a, int64_t n, T* result, bool parallel);

// X with X X = A, whose eigenvalues have no negative real part. False if there is none that can be computed.
bool matrix_square_root(const std::complex<double>* a, int64_t n, std::complex<double>* result);

// X with e^X = A, whose eigenvalues have imaginary parts in (-pi, pi]. False if A has no inverse.
bool matrix_logarithm(const std::complex<double>* a, int64_t n, std::complex<double>* result);

}  // namespace thalweg::linear
