// Conversion of rows of float16 and bfloat16 to float and back, several elements at a time.
//
// Compilers do not vectorize loops over _Float16, so float16 goes through the instructions made for it where there are
// any. Rounding is to nearest even, as for single elements.
#pragma once

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "tensor/dtype.h"

namespace thalweg {

inline void widen_row(const half* from, float* to, int64_t n) {
  int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
#endif
  for (; i < n; ++i) to[i] = static_cast<float>(from[i]);
}

inline void narrow_row(const float* from, half* to, int64_t n) {
  int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#endif
  for (; i < n; ++i) to[i] = half(from[i]);
}

inline void widen_row(const bfloat16* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]);
}

inline void narrow_row(const float* from, bfloat16* to, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    uint32_t u = __builtin_bit_cast(uint32_t, from[i]);
    uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1)) >> 16;
    uint32_t nan = (u >> 16) | 0x40;
    to[i].bits = static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
  }
}

// The row itself, where elements need no conversion; else a copy of it in `buffer`.
template <typename T, typename C>
inline const C* widened_row(const T* from, C* buffer, int64_t n) {
  if constexpr (is_reduced_float<T>) {
    widen_row(from, buffer, n);
    return buffer;
  } else {
    return from;
  }
}

}  // namespace thalweg
