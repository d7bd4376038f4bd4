// Scaling of matrices whose products of elements would leave the range of their type.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "compute/linear/lines.h"

namespace thalweg::linear {

// Multiplies the elements by a power of two if the largest is far from 1, and returns its exponent.
template <typename T>
int scale_lines(T* x, int64_t n) {
  using R = Real<T>;
  R* parts = reinterpret_cast<R*>(x);
  const int64_t count = n * (is_complex<T> ? 2 : 1);
  R largest = 0;
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, std::fabs(parts[i]));
  if (largest == 0) return 0;
  const int exponent = std::ilogb(largest), limit = std::numeric_limits<R>::max_exponent / 4;
  if (std::abs(exponent) < limit) return 0;
  // In two steps: the power itself may be out of range.
  const R half = std::scalbn(R(1), -exponent / 2), rest = std::scalbn(R(1), -exponent - -exponent / 2);
  for (int64_t i = 0; i < count; ++i) parts[i] = parts[i] * half * rest;
  return -exponent;
}

}  // namespace thalweg::linear
