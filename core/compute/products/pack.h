// Packing: copies a block of a matrix into the order in which the micro kernel reads it, without gaps.
//
// B is packed in panels of kTileColumns columns, each with its rows one after the other; A in panels of kTileRows rows,
// each column by column. The last panel is filled up with zeros. Packed memory is read once per tile and stays in the
// cache for any strides of the matrix (powers of two would map all of its rows to the same cache sets).
#pragma once

#include <algorithm>

#include "compute/products/micro_kernel.h"

namespace thalweg::products {

// A matrix anywhere in memory: element (i, j) at data[i * row_stride + j * column_stride]. One stride is 1.
struct Matrix {
  const float* data;
  int64_t row_stride, column_stride;

  const float* at(int64_t i, int64_t j) const { return data + i * row_stride + j * column_stride; }
  Matrix from(int64_t i, int64_t j) const { return {at(i, j), row_stride, column_stride}; }
  Matrix transposed() const { return {data, column_stride, row_stride}; }
};

namespace detail {

// Element i of row j becomes element j of row i.
inline void transpose_8x8(__m256 (&r)[8]) {
  __m256 t[8];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
  __m256 u[8];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    u[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
    u[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
    u[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
    u[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
    r[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
  }
}

// to[j * to_stride + i] = from[i * from_stride + j], for 8 by 8 elements.
inline void transpose_8x8(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
  __m256 r[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(from + i * from_stride);
  transpose_8x8(r);
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) _mm256_storeu_ps(to + i * to_stride, r[i]);
}

}  // namespace detail

// Rows are packed in groups: all panels of a few rows, then the next rows. So the matrix is read in long stretches,
// which the hardware prefetcher follows, and the packed panels are written in whole cache lines.
constexpr int64_t kRowsAtOnce = 8;
// Of a transposed B, whole cache lines of eight columns: the lines of more columns, if a power of two apart, would
// evict each other from the cache before they are used up.
constexpr int64_t kLine = 16;
constexpr int64_t kLinesAhead = 4;

namespace detail {

// Some rows and columns of a panel of B, one by one, and zeros beyond `width`.
inline void pack_b_elements(const Matrix& b, const float* from, int64_t rows, int64_t width, float* panel) {
  for (int64_t r = 0; r < rows; ++r, from += b.row_stride, panel += kTileColumns) {
    for (int64_t i = 0; i < width; ++i) panel[i] = from[i * b.column_stride];
    std::fill(panel + width, panel + kTileColumns, 0.0f);
  }
}

// Eight elements of each of the kTileRows rows of a row-major A.
inline void pack_a_rows(const float* from, int64_t row_stride, float* panel) {
  __m256 r[8];
#pragma GCC unroll 6
  for (int i = 0; i < kTileRows; ++i) r[i] = _mm256_loadu_ps(from + i * row_stride);
  r[6] = r[7] = _mm256_setzero_ps();
  transpose_8x8(r);
  // Each column's last two floats are overwritten by the next column; the last column has no next one.
#pragma GCC unroll 7
  for (int i = 0; i < 7; ++i) _mm256_storeu_ps(panel + i * kTileRows, r[i]);
  _mm_storeu_ps(panel + 7 * kTileRows, _mm256_castps256_ps128(r[7]));
  _mm_storel_pi(reinterpret_cast<__m64*>(panel + 7 * kTileRows + 4), _mm256_extractf128_ps(r[7], 1));
}

}  // namespace detail

// pack_b_block for a B with row_stride 1: its columns are read lengthwise, few at a time, which takes few pages, and
// the next lines are prefetched.
inline void pack_transposed_b(const Matrix& b, int64_t begin, int64_t inner, int64_t first, int64_t columns,
                              float* to) {
  const int64_t whole = columns / kTileColumns * kTileColumns, lines = inner / kLine * kLine;
  for (int64_t j = 0; j < whole; j += 8) {
    const float* from = b.at(begin, first + j);
    float* panel = to + j / kTileColumns * kTileColumns * inner + j % kTileColumns;
    for (int64_t p = 0; p < lines; p += kLine) {
      const int64_t ahead = p + kLinesAhead * kLine;
      const float* next = ahead < lines ? from + ahead : from + 8 * b.column_stride + ahead - lines;
      for (int64_t i = 0; i < 8; ++i)
        _mm_prefetch(reinterpret_cast<const char*>(next + i * b.column_stride), _MM_HINT_T0);
      for (int64_t r = p; r < p + kLine; r += 8)
        detail::transpose_8x8(from + r, b.column_stride, panel + r * kTileColumns, kTileColumns);
    }
  }
  for (int64_t j = 0; j < whole; j += kTileColumns)
    detail::pack_b_elements(b, b.at(begin + lines, first + j), inner - lines, kTileColumns,
                            to + j * inner + lines * kTileColumns);
  if (whole < columns)
    detail::pack_b_elements(b, b.at(begin, first + whole), inner, columns - whole, to + whole * inner);
}

// Rows [begin, begin + inner) and columns [first, first + columns) of B, in panels of inner * kTileColumns floats.
inline void pack_b_block(const Matrix& b, int64_t begin, int64_t inner, int64_t first, int64_t columns, float* to) {
  if (b.column_stride != 1 && b.row_stride == 1) return pack_transposed_b(b, begin, inner, first, columns, to);
  for (int64_t p = 0; p < inner; p += kRowsAtOnce) {
    const int64_t rows = std::min(kRowsAtOnce, inner - p);
    for (int64_t j = 0; j < columns; j += kTileColumns) {
      const int64_t width = std::min<int64_t>(kTileColumns, columns - j);
      const float* from = b.at(begin + p, first + j);
      float* panel = to + j * inner + p * kTileColumns;
      if (width == kTileColumns && b.column_stride == 1) {
        for (int64_t r = 0; r < rows; ++r, from += b.row_stride, panel += kTileColumns) {
          _mm_prefetch(reinterpret_cast<const char*>(from + kRowsAtOnce * b.row_stride), _MM_HINT_T0);
          _mm256_storeu_ps(panel, _mm256_loadu_ps(from));
          _mm256_storeu_ps(panel + 8, _mm256_loadu_ps(from + 8));
        }
      } else {
        detail::pack_b_elements(b, from, rows, width, panel);
      }
    }
  }
}

namespace detail {

// Columns of a panel of A, one by one, and zeros beyond `height`.
inline void pack_a_elements(const Matrix& a, const float* from, int64_t columns, int64_t height, float* panel) {
  for (int64_t q = 0; q < columns; ++q, from += a.column_stride, panel += kTileRows) {
    for (int64_t r = 0; r < height; ++r) panel[r] = from[r * a.row_stride];
    std::fill(panel + height, panel + kTileRows, 0.0f);
  }
}

}  // namespace detail

// Rows [first, first + rows) and columns [begin, begin + inner) of A, in panels of inner * kTileRows floats.
inline void pack_a_block(const Matrix& a, int64_t begin, int64_t inner, int64_t first, int64_t rows, float* to) {
  const bool along_rows = a.column_stride == 1;
  // The order in which A lies in memory: panel after panel, or some columns of all panels.
  const int64_t rows_at_once = along_rows ? kTileRows : rows;
  for (int64_t some = 0; some < rows; some += rows_at_once) {
    for (int64_t p = 0; p < inner; p += kRowsAtOnce) {
      const int64_t columns = std::min(kRowsAtOnce, inner - p);
      for (int64_t i = some; i < std::min(rows, some + rows_at_once); i += kTileRows) {
        const int64_t height = std::min<int64_t>(kTileRows, rows - i);
        const float* from = a.at(first + i, begin + p);
        float* panel = to + i * inner + p * kTileRows;
        if (height == kTileRows && along_rows && columns == kRowsAtOnce) {
          detail::pack_a_rows(from, a.row_stride, panel);
        } else if (height == kTileRows && a.row_stride == 1) {
          for (int64_t q = 0; q < columns; ++q, from += a.column_stride, panel += kTileRows) {
            _mm_prefetch(reinterpret_cast<const char*>(from + kRowsAtOnce * a.column_stride), _MM_HINT_T0);
            _mm_storeu_ps(panel, _mm_loadu_ps(from));
            _mm_storel_pi(reinterpret_cast<__m64*>(panel + 4),
                          _mm_loadl_pi(_mm_setzero_ps(), reinterpret_cast<const __m64*>(from + 4)));
          }
        } else {
          detail::pack_a_elements(a, from, columns, height, panel);
        }
      }
    }
  }
}

}  // namespace thalweg::products
