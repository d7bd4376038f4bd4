// Packing: copies a block of a matrix into the order in which the micro kernel reads it, without gaps.
//
// B is packed in panels of kTileColumns columns, each with its rows one after the other; A in panels of kTileRows rows,
// each column by column. The last panel is filled up with zeros. Packed memory is read once per tile and stays in the
// cache, whatever the strides of the matrix (powers of two would make all of its rows compete for the same places).
#pragma once

#include <algorithm>

#include "products/micro_kernel.h"

namespace thalweg::products {

// A matrix anywhere in memory: element (i, j) at data[i * row_stride + j * column_stride]. One stride is 1.
struct Matrix {
  const float* data;
  int64_t row_stride, column_stride;

  const float* at(int64_t i, int64_t j) const { return data + i * row_stride + j * column_stride; }
  Matrix transposed() const { return {data, column_stride, row_stride}; }
};

namespace detail {

// to[j * to_stride + i] = from[i * from_stride + j], for 8 by 8 elements.
inline void transpose_8x8(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
  __m256 r[8], t[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(from + i * from_stride);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    r[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
    r[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
    r[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
    r[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(to + i * to_stride, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(to + (i + 4) * to_stride, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}

}  // namespace detail

// Rows are packed in groups: all panels of a few rows, then the next rows. So the matrix is read in long stretches,
// which the processor foresees, and the packed panels are written in whole cache lines.
constexpr int64_t kRowsAtOnce = 8;
// Of a transposed matrix, a whole cache line of each column.
constexpr int64_t kLine = 16;

namespace detail {

// Some rows and columns of a panel of B, one by one, and zeros beyond `width`.
inline void pack_b_elements(const Matrix& b, const float* from, int64_t rows, int64_t width, float* panel) {
  for (int64_t r = 0; r < rows; ++r, from += b.row_stride, panel += kTileColumns) {
    for (int64_t i = 0; i < width; ++i) panel[i] = from[i * b.column_stride];
    std::fill(panel + width, panel + kTileColumns, 0.0f);
  }
}

// 16 rows and 16 columns of a B with row_stride 1, eight columns at a time: the lines of more, a power of two apart,
// would compete for the same places of the cache before they are used up.
inline void pack_b_lines(const Matrix& b, const float* from, float* panel) {
  for (int64_t c = 0; c < kTileColumns; c += 8)
    for (int64_t r = 0; r < kLine; r += 8)
      transpose_8x8(from + c * b.column_stride + r, b.column_stride, panel + c + r * kTileColumns, kTileColumns);
}

}  // namespace detail

// Rows [begin, begin + inner) and columns [first, first + columns) of B, in panels of inner * kTileColumns floats.
inline void pack_b_block(const Matrix& b, int64_t begin, int64_t inner, int64_t first, int64_t columns, float* to) {
  const bool transposed = b.column_stride != 1;
  const int64_t group = transposed ? kLine : kRowsAtOnce;
  for (int64_t p = 0; p < inner; p += group) {
    const int64_t rows = std::min(group, inner - p);
    for (int64_t j = 0; j < columns; j += kTileColumns) {
      const int64_t width = std::min<int64_t>(kTileColumns, columns - j);
      const float* from = b.at(begin + p, first + j);
      float* panel = to + j * inner + p * kTileColumns;
      if (width == kTileColumns && !transposed) {
        for (int64_t r = 0; r < rows; ++r, from += b.row_stride, panel += kTileColumns) {
          _mm_prefetch(reinterpret_cast<const char*>(from + kRowsAtOnce * b.row_stride), _MM_HINT_T0);
          _mm256_storeu_ps(panel, _mm256_loadu_ps(from));
          _mm256_storeu_ps(panel + 8, _mm256_loadu_ps(from + 8));
        }
      } else if (width == kTileColumns && rows == kLine && b.row_stride == 1) {
        detail::pack_b_lines(b, from, panel);
      } else {
        detail::pack_b_elements(b, from, rows, width, panel);
      }
    }
  }
}

// Rows [first, first + rows) and columns [begin, begin + inner) of A, in panels of inner * kTileRows floats.
inline void pack_a_block(const Matrix& a, int64_t begin, int64_t inner, int64_t first, int64_t rows, float* to) {
  for (int64_t p = 0; p < inner; p += kRowsAtOnce) {
    const int64_t columns = std::min(kRowsAtOnce, inner - p);
    for (int64_t i = 0; i < rows; i += kTileRows) {
      const float* from = a.at(first + i, begin + p);
      float* panel = to + i * inner + p * kTileRows;
      if (i + kTileRows <= rows && a.row_stride == 1) {
        for (int64_t q = 0; q < columns; ++q, from += a.column_stride, panel += kTileRows) {
          _mm_prefetch(reinterpret_cast<const char*>(from + kRowsAtOnce * a.column_stride), _MM_HINT_T0);
          _mm_storeu_ps(panel, _mm_loadu_ps(from));
          _mm_storel_pi(reinterpret_cast<__m64*>(panel + 4),
                        _mm_loadl_pi(_mm_setzero_ps(), reinterpret_cast<const __m64*>(from + 4)));
        }
      } else {
        const int64_t height = std::min<int64_t>(kTileRows, rows - i);
        for (int64_t q = 0; q < columns; ++q, from += a.column_stride, panel += kTileRows) {
          for (int64_t r = 0; r < height; ++r) panel[r] = from[r * a.row_stride];
          std::fill(panel + height, panel + kTileRows, 0.0f);
        }
      }
    }
  }
}

}  // namespace thalweg::products
