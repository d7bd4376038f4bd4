// C -= A B in tiles of registers, without packing: factorizations call it with short inner dimensions.
#include "compute/linear/lines.h"

#include "thread/parallel.h"

namespace thalweg::linear {
namespace {

// A tile of R rows and two vectors.
template <int R, typename T>
void tile(int64_t inner, const T* a, int64_t a_stride, const T* b, int64_t b_stride, T* c, int64_t c_stride) {
  using V = lanes::Vector<T>;
  constexpr int64_t W = lanes::kLanes<T>;
  V sums[R][2] = {};
  for (int64_t k = 0; k < inner; ++k, b += b_stride) {
    const V b0 = lanes::load<T>(b), b1 = lanes::load<T>(b + W);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const T factor = a[r * a_stride + k];
      sums[r][0] += factor * b0;
      sums[r][1] += factor * b1;
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    T* to = c + r * c_stride;
    lanes::store<T>(lanes::load<T>(to) - sums[r][0], to);
    lanes::store<T>(lanes::load<T>(to + W) - sums[r][1], to + W);
  }
}

template <typename T>
void block_of_rows(int64_t rows, int64_t columns, int64_t inner, const T* a, int64_t a_stride, const T* b,
                   int64_t b_stride, T* c, int64_t c_stride) {
  int64_t j = 0;
  if constexpr (!is_complex<T>) {
    constexpr int64_t kColumns = 2 * lanes::kLanes<T>, kMostPacked = 64;
    T packed[kMostPacked * kColumns];
    for (; j + kColumns <= columns; j += kColumns) {
      const T* strip = b + j;
      int64_t stride = b_stride;
      // Rows that lie a power of two apart would push each other out of the cache between two tiles.
      if (inner <= kMostPacked && rows > 6) {
        for (int64_t k = 0; k < inner; ++k) std::copy_n(strip + k * b_stride, kColumns, packed + k * kColumns);
        strip = packed;
        stride = kColumns;
      }
      int64_t i = 0;
      for (; i + 6 <= rows; i += 6)
        tile<6>(inner, a + i * a_stride, a_stride, strip, stride, c + i * c_stride + j, c_stride);
      for (; i + 2 <= rows; i += 2)
        tile<2>(inner, a + i * a_stride, a_stride, strip, stride, c + i * c_stride + j, c_stride);
      for (; i < rows; ++i) tile<1>(inner, a + i * a_stride, a_stride, strip, stride, c + i * c_stride + j, c_stride);
    }
  }
  if (j == columns) return;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t k = 0; k < inner; ++k)
      subtract(a[i * a_stride + k], b + k * b_stride + j, c + i * c_stride + j, columns - j);
}

}  // namespace

template <typename T>
void subtract_product(int64_t rows, int64_t columns, int64_t inner, const T* a, int64_t a_stride, const T* b,
                      int64_t b_stride, T* c, int64_t c_stride, bool parallel) {
  constexpr int64_t kRows = 48;
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

#define THALWEG_INSTANTIATE(T) \
  template void subtract_product(int64_t, int64_t, int64_t, const T*, int64_t, const T*, int64_t, T*, int64_t, bool);
THALWEG_INSTANTIATE(float)
THALWEG_INSTANTIATE(double)
THALWEG_INSTANTIATE(std::complex<float>)
THALWEG_INSTANTIATE(std::complex<double>)
#undef THALWEG_INSTANTIATE

}  // namespace thalweg::linear
