// Polynomials of float and double with constant coefficients, as vector code.
#pragma once

#include <cstddef>
#include <utility>

#include "compute/elementwise/vector_math.h"
#include "compute/elementwise/vector_math_double.h"

namespace thalweg::vector_math {

template <typename V, size_t... i>
THALWEG_VECTOR V horner(const V* coefficients, V x, std::index_sequence<i...>) {
  V p = coefficients[0];
  ((p = fma(p, x, coefficients[i + 1])), ...);
  return p;
}
// The coefficient of the highest power comes first.
template <typename V, size_t count>
THALWEG_VECTOR V polynomial(const V (&coefficients)[count], V x) {
  return horner(coefficients, x, std::make_index_sequence<count - 1>());
}

}  // namespace thalweg::vector_math
