// C -= A B in tiles of registers, without packing: factorizations call it with short inner dimensions.
#include "compute/linear/lines.h"

#include "thread/parallel.h"

namespace thalweg::linear {
namespace {

// For complex numbers: the lanes of which real and imaginary parts change places, and the signs of products of those.
template <typename R, int kBytes, typename Lanes>
struct Parts;
template <typename R, int kBytes, size_t... lane>
struct Parts<R, kBytes, std::index_sequence<lane...>> {
  using Int = std::conditional_t<sizeof(R) == 4, int32_t, int64_t>;
  typedef Int Mask __attribute__((vector_size(kBytes)));
  typedef R Signs __attribute__((vector_size(kBytes)));
  static constexpr Mask swap = {(lane ^ 1)...};
  static constexpr Signs signs = {(lane % 2 == 0 ? -1 : 1)...};
};

// Registers of so many bytes of real numbers.
template <typename T, int kBytes>
struct Tile {
  using R = Real<T>;
  typedef R Vector __attribute__((vector_size(kBytes), aligned(sizeof(R)), may_alias));
  static constexpr int64_t kLanes = kBytes / sizeof(R);
  // The columns of a tile: two vectors, or one of complex numbers, whose parts are summed up apart.
  static constexpr int64_t kColumns = is_complex<T> ? kLanes / 2 : 2 * kLanes;
  using PartsOfLanes = Parts<R, kBytes, std::make_index_sequence<kLanes>>;
};

// Rows that are multiplied together.
constexpr int64_t kRows = 48;

// c -= a b for a tile of R rows. Each sum has the same bits for any width of the registers.
template <int R, typename X, typename T>
[[gnu::always_inline]] inline void tile(int64_t inner, const T* a, int64_t a_stride, const T* b, int64_t b_stride, T* c,
                                        int64_t c_stride) {
  using V = typename X::Vector;
  V sums[R][2] = {};
  for (int64_t k = 0; k < inner; ++k, b += b_stride) {
    const auto* row = reinterpret_cast<const V*>(b);
    const V b0 = row[0];
    V b1;
    if constexpr (is_complex<T>)
      b1 = __builtin_shuffle(b0, X::PartsOfLanes::swap);
    else
      b1 = row[1];
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const T factor = a[r * a_stride + k];
      sums[r][0] += std::real(factor) * b0;
      if constexpr (is_complex<T>)
        sums[r][1] += factor.imag() * b1;
      else
        sums[r][1] += factor * b1;
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    V* to = reinterpret_cast<V*>(c + r * c_stride);
    if constexpr (is_complex<T>) {
      to[0] -= sums[r][0] + X::PartsOfLanes::signs * sums[r][1];
    } else {
      to[0] -= sums[r][0];
      to[1] -= sums[r][1];
    }
  }
}

// As many rows as there are, for the columns of one tile.
template <typename X, typename T>
[[gnu::always_inline]] inline void tiles(int64_t rows, int64_t inner, const T* a, int64_t a_stride, const T* b,
                                         int64_t b_stride, T* c, int64_t c_stride) {
  int64_t i = 0;
  if constexpr (sizeof(typename X::Vector) == 64)
    for (; i + 12 <= rows; i += 12)
      tile<12, X>(inner, a + i * a_stride, a_stride, b, b_stride, c + i * c_stride, c_stride);
  for (; i + 6 <= rows; i += 6) tile<6, X>(inner, a + i * a_stride, a_stride, b, b_stride, c + i * c_stride, c_stride);
  for (; i + 2 <= rows; i += 2) tile<2, X>(inner, a + i * a_stride, a_stride, b, b_stride, c + i * c_stride, c_stride);
  for (; i < rows; ++i) tile<1, X>(inner, a + i * a_stride, a_stride, b, b_stride, c + i * c_stride, c_stride);
}
template <typename T>
void column_of_tiles(Tile<T, 32>, int64_t rows, int64_t inner, const T* a, int64_t a_stride, const T* b,
                     int64_t b_stride, T* c, int64_t c_stride) {
  tiles<Tile<T, 32>>(rows, inner, a, a_stride, b, b_stride, c, c_stride);
}
// For processors with AVX-512.
template <typename T>
[[gnu::target("avx512f,avx512dq")]] void column_of_tiles(Tile<T, 64>, int64_t rows, int64_t inner, const T* a,
                                                         int64_t a_stride, const T* b, int64_t b_stride, T* c,
                                                         int64_t c_stride) {
  tiles<Tile<T, 64>>(rows, inner, a, a_stride, b, b_stride, c, c_stride);
}
bool has_wide_registers() {
  static const bool answer = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
  return answer;
}

constexpr int64_t kMostPacked = 64;

// Columns from j on, as long as there are enough for a tile; returns where the rest begins.
template <typename X, typename T>
int64_t whole_tiles(int64_t j, int64_t rows, int64_t columns, int64_t inner, const T* a, int64_t a_stride, const T* b,
                    int64_t b_stride, T* c, int64_t c_stride) {
  T packed[kMostPacked * X::kColumns];
  for (; j + X::kColumns <= columns; j += X::kColumns) {
    const T* strip = b + j;
    int64_t stride = b_stride;
    // Rows that lie a power of two apart would push each other out of the cache between two tiles.
    if (inner <= kMostPacked && rows > 6) {
      for (int64_t k = 0; k < inner; ++k) std::copy_n(strip + k * b_stride, X::kColumns, packed + k * X::kColumns);
      strip = packed;
      stride = X::kColumns;
    }
    column_of_tiles(X{}, rows, inner, a, a_stride, strip, stride, c + j, c_stride);
  }
  return j;
}

template <typename T>
void block_of_rows(int64_t rows, int64_t columns, int64_t inner, const T* a, int64_t a_stride, const T* b,
                   int64_t b_stride, T* c, int64_t c_stride) {
  using Narrow = Tile<T, 32>;
  constexpr int64_t width = Narrow::kColumns;
  int64_t j = 0;
  if (has_wide_registers())
    j = whole_tiles<Tile<T, 64>>(j, rows, columns, inner, a, a_stride, b, b_stride, c, c_stride);
  j = whole_tiles<Narrow>(j, rows, columns, inner, a, a_stride, b, b_stride, c, c_stride);
  if (j == columns) return;
  // The last columns, with zeros beside them.
  T edge[kRows * width], packed[kMostPacked * width];
  std::fill_n(edge, rows * width, T(0));
  for (int64_t i = 0; i < rows; ++i) std::copy_n(c + i * c_stride + j, columns - j, edge + i * width);
  std::fill_n(packed, std::min(inner, kMostPacked) * width, T(0));
  for (int64_t first = 0; first < inner; first += kMostPacked) {
    const int64_t depth = std::min(kMostPacked, inner - first);
    for (int64_t k = 0; k < depth; ++k) std::copy_n(b + (first + k) * b_stride + j, columns - j, packed + k * width);
    column_of_tiles(Narrow{}, rows, depth, a + first, a_stride, packed, width, edge, width);
  }
  for (int64_t i = 0; i < rows; ++i) std::copy_n(edge + i * width, columns - j, c + i * c_stride + j);
}

}  // namespace

template <typename T>
void subtract_product(int64_t rows, int64_t columns, int64_t inner, const T* a, int64_t a_stride, const T* b,
                      int64_t b_stride, T* c, int64_t c_stride, bool parallel) {
  const int64_t blocks = (rows + kRows - 1) / kRows;
  const int64_t work = std::max<int64_t>(1, kRows * columns * inner);
  parallel_for(blocks, parallel ? std::max<int64_t>(1, (int64_t{1} << 18) / work) : blocks,
               [&](int64_t begin, int64_t end) {
                 for (int64_t block = begin; block < end; ++block) {
                   const int64_t i = block * kRows;
                   block_of_rows(std::min(kRows, rows - i), columns, inner, a + i * a_stride, a_stride, b, b_stride,
                                 c + i * c_stride, c_stride);
                 }
               });
}

template <typename T>
void transpose_to(const T* from, int64_t rows, int64_t columns, T* to) {
  constexpr int64_t kSide = 16;
  for (int64_t i = 0; i < rows; i += kSide)
    for (int64_t j = 0; j < columns; j += kSide)
      for (int64_t row = i; row < std::min(rows, i + kSide); ++row)
        for (int64_t column = j; column < std::min(columns, j + kSide); ++column)
          to[column * rows + row] = from[row * columns + column];
}

#define THALWEG_INSTANTIATE(T)                                \
  template void transpose_to(const T*, int64_t, int64_t, T*); \
  template void subtract_product(int64_t, int64_t, int64_t, const T*, int64_t, const T*, int64_t, T*, int64_t, bool);
THALWEG_INSTANTIATE(float)
THALWEG_INSTANTIATE(double)
THALWEG_INSTANTIATE(std::complex<float>)
THALWEG_INSTANTIATE(std::complex<double>)
#undef THALWEG_INSTANTIATE

}  // namespace thalweg::linear
