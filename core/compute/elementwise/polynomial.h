// Polynomials of float and double, also of recorded ones, with constant coefficients, as vector code.
#pragma once

#include <cstddef>
#include <utility>

#include "compute/elementwise/vector_math.h"
#include "compute/elementwise/vector_math_double.h"

namespace thalweg::vector_math {

template <typename P, typename V, size_t... i>
THALWEG_VECTOR V horner(const P* coefficients, V x, std::index_sequence<i...>) {
  V p = coefficients[0];
  ((p = fma(p, x, coefficients[i + 1])), ...);
  return p;
}
// The coefficient of the highest power comes first.
template <typename P, typename V, size_t count>
THALWEG_VECTOR V polynomial(const P (&coefficients)[count], V x) {
  return horner(coefficients, x, std::make_index_sequence<count - 1>());
}

// The terms of the powers `first`, `first + step`, ... of x, divided by x^first: a polynomial in y = x^step. A chain of
// more than six multiplications is cut into two that do not wait for each other.
template <size_t first, size_t step, typename P, typename V, size_t count>
THALWEG_VECTOR V every_term(const P (&coefficients)[count], V y) {
  constexpr size_t terms = (count - first + step - 1) / step;
  if constexpr (terms > 6) {
    const V square = y * y;
    const V even = every_term<first, 2 * step>(coefficients, square);
    return fma(every_term<first + step, 2 * step>(coefficients, square), y, even);
  } else {
    constexpr size_t last = count - 1 - first;  // of the coefficients, whose order is that of falling powers
    V p = coefficients[last - (terms - 1) * step];
    [&]<size_t... i>(std::index_sequence<i...>) [[gnu::always_inline]] {
      ((p = fma(p, y, coefficients[last - (terms - 2 - i) * step])), ...);
    }(std::make_index_sequence<terms - 1>());
    return p;
  }
}
// The same value with a shorter chain of operations, where even and odd powers do not nearly cancel each other.
template <typename P, typename V, size_t count>
THALWEG_VECTOR V split_polynomial(const P (&coefficients)[count], V x) {
  return every_term<0, 1>(coefficients, x);
}

}  // namespace thalweg::vector_math
