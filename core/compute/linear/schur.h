// A = Q T Q^H with an upper triangular T, for any square matrix of complex numbers.
#pragma once

#include <complex>
#include <cstdint>

namespace thalweg::linear {

// Columns of A and of Q lie as lines of n elements. T replaces A. False if the iteration does not converge.
bool schur(std::complex<double>* a, int64_t n, std::complex<double>* q);

}  // namespace thalweg::linear
