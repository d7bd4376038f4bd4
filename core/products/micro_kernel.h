// The innermost loop of a float32 matrix product: a tile of up to 6 by 16 elements of C, held in registers.
//
// Sixteen vector registers of eight floats: twelve for the tile, two for a row of B, one for an element of A. Twelve
// independent chains of multiply-adds hide the latency of each other, and six loads of A and two of B per twelve
// multiply-adds leave the load ports time to spare.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace thalweg::products {

constexpr int kTileRows = 6;
constexpr int kTileColumns = 16;

// How the elements of A lie that one tile needs: element (i, p) at a[i * row_stride + p * inner_stride].
struct RowsOfA {  // rows of a row-major matrix, read where they are
  int64_t row_stride;
  static constexpr int64_t inner_stride = 1;
};
struct PackedA {  // kTileRows elements of column after column
  static constexpr int64_t row_stride = 1;
  static constexpr int64_t inner_stride = kTileRows;
};

// How a finished tile gets into C, which lies at c[i * row_stride + j].
struct TileOfC {
  int64_t row_stride;
  int columns;      // the tile's own: 1 to kTileColumns
  bool accumulate;  // adds to what is there,
  float scale = 1;  // so many times
};

namespace detail {

inline __m256i mask_of(int columns) {
  alignas(32) static const int32_t ones[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(ones + 8 - columns));
}

inline void store_part(float* to, __m256 value, int columns, const TileOfC& out) {
  const __m256i mask = mask_of(columns);
  if (out.accumulate) value = _mm256_fmadd_ps(value, _mm256_set1_ps(out.scale), _mm256_maskload_ps(to, mask));
  _mm256_maskstore_ps(to, mask, value);
}

template <int kRows, bool kFetch, typename LayoutOfA>
inline void tile(int64_t inner, const float* a, LayoutOfA layout, const float* b, int64_t b_stride, float* c,
                 const TileOfC& out, const float* next) {
  __m256 sums[kRows][2];
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) {
    sums[i][0] = sums[i][1] = _mm256_setzero_ps();
    // C comes from far away, and the tile cannot leave the registers before it is there.
    _mm_prefetch(reinterpret_cast<const char*>(c + i * out.row_stride), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(c + i * out.row_stride + kTileColumns - 1), _MM_HINT_T0);
  }
  const int64_t row_stride = layout.row_stride;
  for (int64_t p = 0; p < inner; ++p) {
    const __m256 left = _mm256_loadu_ps(b), right = _mm256_loadu_ps(b + 8);
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
      const __m256 element = _mm256_broadcast_ss(a + i * row_stride);
      sums[i][0] = _mm256_fmadd_ps(element, left, sums[i][0]);
      sums[i][1] = _mm256_fmadd_ps(element, right, sums[i][1]);
    }
    if constexpr (kFetch) {
      _mm_prefetch(reinterpret_cast<const char*>(next), _MM_HINT_T0);
      next += kTileColumns;
    }
    a += LayoutOfA::inner_stride;
    b += b_stride;
  }
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) {
    float* to = c + i * out.row_stride;
    if (out.columns == kTileColumns) {
      if (out.accumulate) {
        const __m256 scale = _mm256_broadcast_ss(&out.scale);
        sums[i][0] = _mm256_fmadd_ps(sums[i][0], scale, _mm256_loadu_ps(to));
        sums[i][1] = _mm256_fmadd_ps(sums[i][1], scale, _mm256_loadu_ps(to + 8));
      }
      _mm256_storeu_ps(to, sums[i][0]);
      _mm256_storeu_ps(to + 8, sums[i][1]);
    } else {
      store_part(to, sums[i][0], out.columns < 8 ? out.columns : 8, out);
      if (out.columns > 8) store_part(to + 8, sums[i][1], out.columns - 8, out);
    }
  }
}

}  // namespace detail

// C = A * B (or C += A * B) for `rows` <= kTileRows rows of A and kTileColumns columns of B, whose row p begins at
// b + p * b_stride. All kTileColumns of B are read, also where the tile has fewer columns. Meanwhile as many packed
// rows of B as these are asked for at `next`, unless it is null.
template <typename LayoutOfA>
void multiply_tile(int rows, int64_t inner, const float* a, LayoutOfA layout, const float* b, int64_t b_stride,
                   float* c, const TileOfC& out, const float* next = nullptr) {
  const auto with = [&]<int kRows>() {
    if (next != nullptr)
      detail::tile<kRows, true>(inner, a, layout, b, b_stride, c, out, next);
    else
      detail::tile<kRows, false>(inner, a, layout, b, b_stride, c, out, next);
  };
  switch (rows) {
    case 1:
      return with.template operator()<1>();
    case 2:
      return with.template operator()<2>();
    case 3:
      return with.template operator()<3>();
    case 4:
      return with.template operator()<4>();
    case 5:
      return with.template operator()<5>();
    default:
      return with.template operator()<6>();
  }
}

}  // namespace thalweg::products
