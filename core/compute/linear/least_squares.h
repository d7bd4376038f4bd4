// Solutions of A X = B that make the sum of squares of what is left least.
#pragma once

#include <cstdint>

namespace thalweg::linear {

// `a` is row-major [m, n], `b` [m, columns] and `x` [n, columns], none of them empty, all elements finite. The squares
// of X count, too, times `regularizer` >= 0; among several solutions, X is the one of least squares itself. `fast`
// takes the normal equations where they are as good as that. False if an iteration does not converge.
template <typename T>
bool least_squares(const T* a, int64_t m, int64_t n, const T* b, int64_t columns, double regularizer, bool fast, T* x,
                   bool parallel);

}  // namespace thalweg::linear
