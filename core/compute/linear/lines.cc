// C -= A B in tiles of registers, without packing: factorizations call it with short inner dimensions.
#include "compute/linear/lines.h"

#include "thread/parallel.h"

namespace thalweg::linear {
namespace {

// The columns of a tile: two vectors, or one of complex numbers, whose parts are summed up apart.
template <typename T>
constexpr int64_t kColumns = is_complex<T> ? kPerPack<T> : 2 * kPerPack<T>;

// Rows that are multiplied together.
constexpr int64_t kRows = 48;

// A tile of R rows.
template <int R, typename T>
void tile(int64_t inner, const T* a, int64_t a_stride, const T* b, int64_t b_stride, T* c, int64_t c_stride) {
  using V = Pack<T>;
  constexpr int64_t W = kPerPack<T>;
  V sums[R][2] = {};
  for (int64_t k = 0; k < inner; ++k, b += b_stride) {
    const V b0 = load(b);
    V b1;
    if constexpr (is_complex<T>)
      b1 = swap_parts<Real<T>>(b0);
    else
      b1 = load(b + W);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const T factor = a[r * a_stride + k];
      sums[r][0] += std::real(factor) * b0;
      if constexpr (is_complex<T>)
        sums[r][1] += factor.imag() * b1;
      else
        sums[r][1] += factor * b1;
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    T* to = c + r * c_stride;
    if constexpr (is_complex<T>) {
      store(load(to) - (sums[r][0] + PairsOfLanes<Real<T>>::signs * sums[r][1]), to);
    } else {
      store(load(to) - sums[r][0], to);
      store(load(to + W) - sums[r][1], to + W);
    }
  }
}

template <typename T>
void block_of_rows(int64_t rows, int64_t columns, int64_t inner, const T* a, int64_t a_stride, const T* b,
                   int64_t b_stride, T* c, int64_t c_stride) {
  constexpr int64_t kMostPacked = 64;
  T packed[kMostPacked * kColumns<T>];
  int64_t j = 0;
  for (; j + kColumns<T> <= columns; j += kColumns<T>) {
    const T* strip = b + j;
    int64_t stride = b_stride;
    // Rows that lie a power of two apart would push each other out of the cache between two tiles.
    if (inner <= kMostPacked && rows > 6) {
      for (int64_t k = 0; k < inner; ++k) std::copy_n(strip + k * b_stride, kColumns<T>, packed + k * kColumns<T>);
      strip = packed;
      stride = kColumns<T>;
    }
    int64_t i = 0;
    for (; i + 6 <= rows; i += 6)
      tile<6>(inner, a + i * a_stride, a_stride, strip, stride, c + i * c_stride + j, c_stride);
    for (; i + 2 <= rows; i += 2)
      tile<2>(inner, a + i * a_stride, a_stride, strip, stride, c + i * c_stride + j, c_stride);
    for (; i < rows; ++i) tile<1>(inner, a + i * a_stride, a_stride, strip, stride, c + i * c_stride + j, c_stride);
  }
  if (j == columns) return;
  // The last columns, with zeros beside them.
  T edge[kRows * kColumns<T>];
  std::fill_n(edge, rows * kColumns<T>, T(0));
  for (int64_t i = 0; i < rows; ++i) std::copy_n(c + i * c_stride + j, columns - j, edge + i * kColumns<T>);
  std::fill_n(packed, std::min(inner, kMostPacked) * kColumns<T>, T(0));
  for (int64_t first = 0; first < inner; first += kMostPacked) {
    const int64_t depth = std::min(kMostPacked, inner - first);
    for (int64_t k = 0; k < depth; ++k)
      std::copy_n(b + (first + k) * b_stride + j, columns - j, packed + k * kColumns<T>);
    int64_t i = 0;
    for (; i + 6 <= rows; i += 6)
      tile<6>(depth, a + i * a_stride + first, a_stride, packed, kColumns<T>, edge + i * kColumns<T>, kColumns<T>);
    for (; i < rows; ++i)
      tile<1>(depth, a + i * a_stride + first, a_stride, packed, kColumns<T>, edge + i * kColumns<T>, kColumns<T>);
  }
  for (int64_t i = 0; i < rows; ++i) std::copy_n(edge + i * kColumns<T>, columns - j, c + i * c_stride + j);
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
