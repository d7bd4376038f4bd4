// A blocked matrix product: panels of both operands are packed, and a register tile of the result is kept in vectors.
//
// Compiled with fused multiply-add, unlike the rest (see CMakeLists.txt): a product of matrices is rounded differently
// by every library anyway.
#include "compute/matmul/gemm.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "compute/products/sgemm.h"
#include "thread/parallel.h"

namespace thalweg {
namespace {

constexpr int kTileRows = 6;          // 6 x 2 vectors of accumulators, 2 of b, 1 of a: 15 of AVX2's 16 registers.
constexpr int64_t kInnerBlock = 256;  // A packed panel of b (16 vectors' width) stays in the first-level cache.
constexpr int64_t kRowBlock = 96;
constexpr int64_t kColumnBlock = 1024;

template <typename T>
struct Tile {
  typedef T Vector __attribute__((vector_size(32), aligned(sizeof(T)), may_alias));
  static constexpr int kLanes = 32 / sizeof(T);
  static constexpr int kColumns = 2 * kLanes;
};

// Rows [0, rows) of a, kTileRows at a time, each group transposed: group g holds a[g*6 + 0..5][k] for each k.
template <typename T>
void pack_a(const T* a, const MatrixLayout& layout, int64_t rows, int64_t inner, T* out) {
  for (int64_t first = 0; first < rows; first += kTileRows) {
    const int64_t height = std::min<int64_t>(kTileRows, rows - first);
    for (int64_t k = 0; k < inner; ++k, out += kTileRows) {
      const T* p = a + first * layout.row_stride + k * layout.column_stride;
      for (int64_t i = 0; i < height; ++i) out[i] = p[i * layout.row_stride];
      for (int64_t i = height; i < kTileRows; ++i) out[i] = T(0);
    }
  }
}

template <typename T>
void pack_b(const T* b, const MatrixLayout& layout, int64_t inner, int64_t columns, T* out) {
  constexpr int64_t kWidth = Tile<T>::kColumns;
  for (int64_t first = 0; first < columns; first += kWidth) {
    const int64_t width = std::min(kWidth, columns - first);
    for (int64_t k = 0; k < inner; ++k, out += kWidth) {
      const T* p = b + k * layout.row_stride + first * layout.column_stride;
      if (width == kWidth && layout.column_stride == 1) {
        std::memcpy(out, p, kWidth * sizeof(T));
      } else {
        for (int64_t j = 0; j < width; ++j) out[j] = p[j * layout.column_stride];
        for (int64_t j = width; j < kWidth; ++j) out[j] = T(0);
      }
    }
  }
}

// c[0..height)[0..width) += one group of packed a times one group of packed b.
template <typename T>
void multiply_tile(const T* a, const T* b, int64_t inner, T* c, int64_t stride, int64_t height, int64_t width) {
  using Vector = typename Tile<T>::Vector;
  constexpr int kLanes = Tile<T>::kLanes;
  Vector sum[kTileRows][2] = {};
  for (int64_t k = 0; k < inner; ++k, a += kTileRows, b += 2 * kLanes) {
    const Vector left = *reinterpret_cast<const Vector*>(b), right = *reinterpret_cast<const Vector*>(b + kLanes);
#pragma GCC unroll 6
    for (int i = 0; i < kTileRows; ++i) {
      sum[i][0] += a[i] * left;
      sum[i][1] += a[i] * right;
    }
  }
  if (height == kTileRows && width == 2 * kLanes) {
#pragma GCC unroll 6
    for (int i = 0; i < kTileRows; ++i) {
      Vector* row = reinterpret_cast<Vector*>(c + i * stride);
      row[0] += sum[i][0];
      row[1] += sum[i][1];
    }
    return;
  }
  T whole[kTileRows][2 * kLanes];
  std::memcpy(whole, sum, sizeof(whole));
  for (int64_t i = 0; i < height; ++i)
    for (int64_t j = 0; j < width; ++j) c[i * stride + j] += whole[i][j];
}

// Memory for packed panels, at most some 2 MB, kept by each thread: a large allocation for every product would cost
// more than the packing.
template <typename T, int kWhich>
struct Buffer {
  static T* reserve(int64_t count) {
    thread_local std::unique_ptr<T[]> memory;
    thread_local int64_t capacity = 0;
    if (count > capacity) {
      memory.reset(new T[count]);
      capacity = count;
    }
    return memory.get();
  }
};

// A stripe of rows of the result.
template <typename T>
void multiply_rows(int64_t rows, int64_t columns, int64_t inner, const MatrixLayout& a_layout, const T* a,
                   const MatrixLayout& b_layout, const T* b, T* c) {
  constexpr int64_t kWidth = Tile<T>::kColumns;
  std::fill_n(c, rows * columns, T(0));
  const int64_t block_columns = std::min(kColumnBlock, (columns + kWidth - 1) / kWidth * kWidth);
  const int64_t block_inner = std::min(kInnerBlock, inner);
  const int64_t block_rows = std::min(kRowBlock, (rows + kTileRows - 1) / kTileRows * kTileRows);
  T* const packed_a = Buffer<T, 0>::reserve(block_rows * block_inner);
  T* const packed_b = Buffer<T, 1>::reserve(block_columns * block_inner);
  for (int64_t j0 = 0; j0 < columns; j0 += kColumnBlock) {
    const int64_t width = std::min(kColumnBlock, columns - j0);
    for (int64_t k0 = 0; k0 < inner; k0 += kInnerBlock) {
      const int64_t depth = std::min(kInnerBlock, inner - k0);
      pack_b(b + k0 * b_layout.row_stride + j0 * b_layout.column_stride, b_layout, depth, width, packed_b);
      for (int64_t i0 = 0; i0 < rows; i0 += kRowBlock) {
        const int64_t height = std::min(kRowBlock, rows - i0);
        pack_a(a + i0 * a_layout.row_stride + k0 * a_layout.column_stride, a_layout, height, depth, packed_a);
        for (int64_t j = 0; j < width; j += kWidth)
          for (int64_t i = 0; i < height; i += kTileRows)
            multiply_tile(packed_a + i * depth, packed_b + j * depth, depth, c + (i0 + i) * columns + j0 + j, columns,
                          std::min<int64_t>(kTileRows, height - i), std::min(kWidth, width - j));
      }
    }
  }
}

// Without packing: for few elements, and for vectors, which are read only once.
template <typename T>
void multiply_directly(int64_t rows, int64_t columns, int64_t inner, const MatrixLayout& a_layout, const T* a,
                       const MatrixLayout& b_layout, const T* b, T* c) {
  for (int64_t i = 0; i < rows; ++i) {
    const T* p = a + i * a_layout.row_stride;
    T* out = c + i * columns;
    if (b_layout.column_stride == 1 && columns > 1) {
      std::fill_n(out, columns, T(0));
      for (int64_t k = 0; k < inner; ++k) {
        const T x = p[k * a_layout.column_stride];
        const T* q = b + k * b_layout.row_stride;
#pragma GCC ivdep
        for (int64_t j = 0; j < columns; ++j) out[j] += x * q[j];
      }
      continue;
    }
    for (int64_t j = 0; j < columns; ++j) {
      const T* q = b + j * b_layout.column_stride;
      T sums[8] = {};
      int64_t k = 0;
      if (a_layout.column_stride == 1 && b_layout.row_stride == 1)
        for (; k + 8 <= inner; k += 8)
          for (int l = 0; l < 8; ++l) sums[l] += p[k + l] * q[k + l];
      for (; k < inner; ++k) sums[0] += p[k * a_layout.column_stride] * q[k * b_layout.row_stride];
      out[j] = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    }
  }
}

template <typename T>
constexpr bool has_packed_product = std::is_same_v<T, double> || std::is_same_v<T, uint32_t>;

}  // namespace

template <typename T>
void gemm(int64_t rows, int64_t columns, int64_t inner, const MatrixLayout& a_layout, const T* a,
          const MatrixLayout& b_layout, const T* b, T* c, bool parallel) {
  const bool direct = columns == 1 || rows <= 2 || static_cast<double>(rows) * columns * inner <= 1024;
  if constexpr (std::is_same_v<T, float>) {
    if (!direct)
      return products::sgemm({rows,
                              columns,
                              inner,
                              {a, a_layout.row_stride, a_layout.column_stride},
                              {b, b_layout.row_stride, b_layout.column_stride},
                              c,
                              columns},
                             parallel);
  }
  auto stripe = [&](int64_t begin, int64_t end) {
    auto* multiply = &multiply_directly<T>;
    if constexpr (has_packed_product<T>)
      if (!direct) multiply = &multiply_rows<T>;
    multiply(end - begin, columns, inner, a_layout, a + begin * a_layout.row_stride, b_layout, b, c + begin * columns);
  };
  const double work_per_row = static_cast<double>(columns) * static_cast<double>(inner);
  const int64_t grain = static_cast<int64_t>(std::clamp(65536.0 / work_per_row, double(kTileRows), 1e9));
  if (parallel)
    parallel_for(rows, grain, stripe);
  else
    stripe(0, rows);
}

template void gemm(int64_t, int64_t, int64_t, const MatrixLayout&, const float*, const MatrixLayout&, const float*,
                   float*, bool);
template void gemm(int64_t, int64_t, int64_t, const MatrixLayout&, const double*, const MatrixLayout&, const double*,
                   double*, bool);
template void gemm(int64_t, int64_t, int64_t, const MatrixLayout&, const uint32_t*, const MatrixLayout&,
                   const uint32_t*, uint32_t*, bool);
template void gemm(int64_t, int64_t, int64_t, const MatrixLayout&, const uint64_t*, const MatrixLayout&,
                   const uint64_t*, uint64_t*, bool);

}  // namespace thalweg
