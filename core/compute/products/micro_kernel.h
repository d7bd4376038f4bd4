// The innermost loop of a float32 matrix product: a tile of up to 6 by 16 elements of C, held in registers.
//
// Sixteen vector registers of eight floats: twelve for the tile, two for a row of B, one for an element of A. Twelve
// independent chains of multiply-adds hide the latency of each other, and six loads of A and two of B per twelve
// multiply-adds leave the load ports time to spare.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <type_traits>

namespace thalweg::products {

constexpr int kTileRows = 6;
constexpr int kTileColumns = 16;
constexpr int kRowsAhead = 8;  // of a B that is not packed yet

// How the elements of A lie that one tile needs: element (i, p) at a[i * row_stride + p * inner_stride]. Those of the
// next tile follow at a + tile_stride(inner).
struct RowsOfA {  // rows of a row-major matrix, read where they are
  int64_t row_stride;
  static constexpr int64_t inner_stride = 1;
  int64_t tile_stride(int64_t) const { return kTileRows * row_stride; }
};
struct PackedA {  // kTileRows elements of column after column
  static constexpr int64_t row_stride = 1;
  static constexpr int64_t inner_stride = kTileRows;
  static int64_t tile_stride(int64_t inner) { return kTileRows * inner; }
};

// How a finished tile gets into C, which lies at c[i * row_stride + j].
struct TileOfC {
  int64_t row_stride;
  int columns;      // the tile's own: 1 to kTileColumns
  bool accumulate;  // adds to the values in C,
  float scale = 1;  // so many times
};

namespace detail {

// A tile of fewer columns, element by element: masked stores take dozens of cycles on some processors.
[[gnu::noinline]] inline void store_narrow(const float* sums, int rows, float* c, const TileOfC& out) {
  for (int i = 0; i < rows; ++i, sums += kTileColumns, c += out.row_stride)
    for (int j = 0; j < out.columns; ++j) c[j] = out.accumulate ? c[j] + sums[j] * out.scale : sums[j];
}

template <int kRows>
inline void store_tile(const __m256 (&sums)[kRows][2], float* c, const TileOfC& out) {
  const int64_t row_stride = out.row_stride;
  if (out.columns < kTileColumns) {
    alignas(32) float values[kRows][kTileColumns];
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
      _mm256_store_ps(values[i], sums[i][0]);
      _mm256_store_ps(values[i] + 8, sums[i][1]);
    }
    store_narrow(values[0], kRows, c, out);
  } else if (out.accumulate) {
    const __m256 scale = _mm256_set1_ps(out.scale);
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i, c += row_stride) {
      _mm256_storeu_ps(c, _mm256_add_ps(_mm256_loadu_ps(c), _mm256_mul_ps(sums[i][0], scale)));
      _mm256_storeu_ps(c + 8, _mm256_add_ps(_mm256_loadu_ps(c + 8), _mm256_mul_ps(sums[i][1], scale)));
    }
  } else {
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i, c += row_stride) {
      _mm256_storeu_ps(c, sums[i][0]);
      _mm256_storeu_ps(c + 8, sums[i][1]);
    }
  }
}

// Work of a tile beside its sums: prefetching a panel of B, or packing the one that it reads.
enum class Aside { nothing, fetch, pack };

template <int kRows, Aside kAside, typename LayoutOfA>
[[gnu::always_inline]] inline void tile(int64_t inner, const float* a, LayoutOfA layout, const float* b,
                                        int64_t b_stride, float* c, const TileOfC& out,
                                        std::conditional_t<kAside == Aside::pack, float*, const float*> panel) {
  __m256 sums[kRows][2];
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) {
    sums[i][0] = sums[i][1] = _mm256_setzero_ps();
    // Prefetches C, which is rarely cached: the tile stays in the registers until its line has come.
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
    if constexpr (kAside == Aside::fetch) {
      _mm_prefetch(reinterpret_cast<const char*>(panel), _MM_HINT_T0);
      panel += kTileColumns;
    }
    if constexpr (kAside == Aside::pack) {
      _mm_prefetch(reinterpret_cast<const char*>(b + kRowsAhead * b_stride), _MM_HINT_T0);
      _mm256_storeu_ps(panel, left);
      _mm256_storeu_ps(panel + 8, right);
      panel += kTileColumns;
    }
    a += LayoutOfA::inner_stride;
    b += b_stride;
  }
  store_tile<kRows>(sums, c, out);
}

// Two tiles of kTileRows rows below each other, or two such pairs side by side, on processors with AVX-512: a register
// holds all columns of a row of a tile. An element of A that is multiplied by two rows of B is loaded once, and so few
// loads a multiply-add leave the load ports time to spare. Each sum is formed in the same order as in `tile`, so that
// bits are the same. Aside, they prefetch `panel`, or copy the rows of a B that is not packed to it.
template <int kPanels, Aside kAside, typename LayoutOfA>
[[gnu::target("avx512f")]] void pairs_of_tiles(int64_t inner, const float* upper, LayoutOfA layout, const float* b,
                                               int64_t b_stride, float* c, const TileOfC& out,
                                               std::conditional_t<kAside == Aside::pack, float*, const float*> panel) {
  static_assert(kAside != Aside::pack || kPanels == 1);
  constexpr int kRows = 2 * kTileRows;
  __m512 sums[kRows][kPanels];
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kPanels; ++j) {
      sums[i][j] = _mm512_setzero_ps();
      _mm_prefetch(reinterpret_cast<const char*>(c + i * out.row_stride + j * kTileColumns), _MM_HINT_T0);
    }
    _mm_prefetch(reinterpret_cast<const char*>(c + i * out.row_stride + kPanels * kTileColumns - 1), _MM_HINT_T0);
  }
  const int64_t row_stride = layout.row_stride, panel_stride = inner * kTileColumns;
  const float* lower = upper + layout.tile_stride(inner);
  for (int64_t p = 0; p < inner; ++p) {
    __m512 row[kPanels];
#pragma GCC unroll 2
    for (int j = 0; j < kPanels; ++j) row[j] = _mm512_loadu_ps(b + j * panel_stride);
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      const __m512 element =
          _mm512_set1_ps(i < kTileRows ? upper[i * row_stride] : lower[(i - kTileRows) * row_stride]);
#pragma GCC unroll 2
      for (int j = 0; j < kPanels; ++j) sums[i][j] = _mm512_fmadd_ps(element, row[j], sums[i][j]);
    }
    if constexpr (kAside == Aside::fetch)
      _mm_prefetch(reinterpret_cast<const char*>(panel + p * kTileColumns), _MM_HINT_T0);
    if constexpr (kAside == Aside::pack) {
      _mm_prefetch(reinterpret_cast<const char*>(b + kRowsAhead * b_stride), _MM_HINT_T0);
      _mm512_storeu_ps(panel + p * kTileColumns, row[0]);
    }
    upper += LayoutOfA::inner_stride;
    lower += LayoutOfA::inner_stride;
    b += kAside == Aside::pack ? b_stride : kTileColumns;
  }
  const __m512 scale = _mm512_set1_ps(out.scale);
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i, c += out.row_stride)
#pragma GCC unroll 2
    for (int j = 0; j < kPanels; ++j) {
      float* to = c + j * kTileColumns;
      _mm512_storeu_ps(
          to, out.accumulate ? _mm512_add_ps(_mm512_loadu_ps(to), _mm512_mul_ps(sums[i][j], scale)) : sums[i][j]);
    }
}

}  // namespace detail

// Whether the processor has registers of sixteen floats.
inline bool has_wide_registers() {
  static const bool answer = __builtin_cpu_supports("avx512f");
  return answer;
}

// Calls with.operator()<kRows>() for a number of rows from 1 to kTileRows.
template <typename With>
[[gnu::always_inline]] inline void with_rows(int rows, const With& with) {
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

// C = A * B (or C += A * B) for `rows` <= kTileRows rows of A and kTileColumns columns of B, whose row p begins at b +
// p * b_stride. All kTileColumns of B are read, also where the tile has fewer columns. Meanwhile as many packed rows of
// B are prefetched from `next`, unless it is null.
template <typename LayoutOfA>
void multiply_tile(int rows, int64_t inner, const float* a, LayoutOfA layout, const float* b, int64_t b_stride,
                   float* c, const TileOfC& out, const float* next = nullptr) {
  with_rows(rows, [&]<int kRows>() {
    if (next != nullptr)
      detail::tile<kRows, detail::Aside::fetch>(inner, a, layout, b, b_stride, c, out, next);
    else
      detail::tile<kRows, detail::Aside::nothing>(inner, a, layout, b, b_stride, c, out, next);
  });
}

// The same for two tiles below each other, and kPanels of these pairs side by side: 2 * kTileRows rows, and as many
// columns of a packed B. Only if the processor has_wide_registers.
template <int kPanels, typename LayoutOfA>
void multiply_pairs_of_tiles(int64_t inner, const float* a, LayoutOfA layout, const float* b, float* c,
                             const TileOfC& out, const float* next = nullptr) {
  if (next != nullptr)
    detail::pairs_of_tiles<kPanels, detail::Aside::fetch>(inner, a, layout, b, kTileColumns, c, out, next);
  else
    detail::pairs_of_tiles<kPanels, detail::Aside::nothing>(inner, a, layout, b, kTileColumns, c, out, next);
}

// A tile, or a pair of them, of a B that is not packed: its rows are copied to `packed` on the way, for the tiles that
// follow.
template <typename LayoutOfA>
void multiply_tile_and_pack(int rows, int64_t inner, const float* a, LayoutOfA layout, const float* b, int64_t b_stride,
                            float* c, const TileOfC& out, float* packed) {
  with_rows(rows, [&]<int kRows>() {
    detail::tile<kRows, detail::Aside::pack>(inner, a, layout, b, b_stride, c, out, packed);
  });
}

template <typename LayoutOfA>
void multiply_pair_of_tiles_and_pack(int64_t inner, const float* a, LayoutOfA layout, const float* b, int64_t b_stride,
                                     float* c, const TileOfC& out, float* packed) {
  detail::pairs_of_tiles<1, detail::Aside::pack>(inner, a, layout, b, b_stride, c, out, packed);
}

}  // namespace thalweg::products
