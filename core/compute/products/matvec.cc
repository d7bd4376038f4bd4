// The product of a matrix and a vector: lanes hold sums of different rows, so that each is added up in order.
#include "compute/products/matvec.h"

#include <algorithm>
#include <vector>

#include "compute/lanes/vectors.h"
#include "compute/products/sgemm.h"
#include "thread/parallel.h"

namespace thalweg::products {
namespace {

using lanes::kLanes;
using lanes::load;
using lanes::store;
using lanes::Vector;

constexpr int64_t kGrain = 32 * 1024;     // elements of the matrix that are worth a thread of their own
constexpr int64_t kTile = 2048;           // sums that stay in the first-level cache
constexpr int64_t kPrefetched = 8 << 10;  // bytes that are asked for before they are used, at most
constexpr int64_t kCached = 64 << 10;     // bytes of a matrix that is read column by column, whatever their distance

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t depth_of(int64_t inner) { return ceil_div(ceil_div(inner, ceil_div(inner, kLongestWhole)), 8) * 8; }

// Rows without gaps: squares of as many rows as lanes are transposed in registers. G groups of rows at once hide the
// latency of the chains.
template <typename T, int G>
void add_rows(const MatrixVector<T>& x, const T* v, int64_t row, int64_t depth) {
  constexpr int64_t W = kLanes<T>;
  Vector<T> totals[G] = {};
  for (int64_t first = 0; first < x.inner; first += depth) {
    const int64_t end = std::min(x.inner, first + depth);
    Vector<T> sums[G] = {};
    int64_t p = first;
    auto add_square = [&](int g, int64_t at) [[gnu::always_inline]] {
      Vector<T> square[W];
      const T* from = x.matrix + (row + g * W) * x.row_stride + at;
#pragma GCC unroll 8
      for (int64_t l = 0; l < W; ++l) square[l] = load<T>(from + l * x.row_stride);
      lanes::transpose<T>(square);
#pragma GCC unroll 8
      for (int64_t k = 0; k < W; ++k) sums[g] = square[k] * v[at + k] + sums[g];
    };
    // Two squares at once are whole lines of the cache, which rows at distances of 4096 bytes drive out.
    for (; p + 2 * W <= end; p += 2 * W)
      for (int g = 0; g < G; ++g) {
        add_square(g, p);
        add_square(g, p + W);
      }
    for (; p + W <= end; p += W)
      for (int g = 0; g < G; ++g) add_square(g, p);
    for (; p < end; ++p)
      for (int g = 0; g < G; ++g) {
        Vector<T> column;
        for (int64_t l = 0; l < W; ++l) column[l] = x.matrix[(row + g * W + l) * x.row_stride + p];
        sums[g] = column * v[p] + sums[g];
      }
    for (int g = 0; g < G; ++g) totals[g] = first == 0 ? sums[g] : totals[g] + sums[g];
  }
  for (int g = 0; g < G; ++g) store<T>(totals[g], x.result + row + g * W);
}

// The last rows again, together with some before them: their sums come out the same.
template <typename T>
void multiply_rows(const MatrixVector<T>& x, const T* v, bool parallel) {
  constexpr int64_t W = kLanes<T>, kGroups = sizeof(T) == 8 ? 4 : 2, kRows = W * kGroups;
  const int64_t depth = depth_of(x.inner), blocks = ceil_div(x.rows, kRows);
  // Short rows are streams that end before the processor foresees them: the next ones are asked for ahead.
  const int64_t block_bytes = kRows * x.row_stride * static_cast<int64_t>(sizeof(T));
  const bool prefetches = block_bytes <= kPrefetched;
  auto body = [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t row = b * kRows, left = x.rows - row;
      if (prefetches && left >= 2 * kRows) {
        const char* next = reinterpret_cast<const char*>(x.matrix + (row + kRows) * x.row_stride);
        for (int64_t at = 0; at < block_bytes; at += 64) __builtin_prefetch(next + at);
      }
      if (left >= kRows) {
        add_rows<T, kGroups>(x, v, row, depth);
        continue;
      }
      for (int64_t r = row; r < x.rows; r += W) add_rows<T, 1>(x, v, std::min(r, x.rows - W), depth);
    }
  };
  parallel_for(blocks, parallel ? std::max<int64_t>(1, kGrain / (kRows * x.inner)) : blocks, body);
}

// The sums of G vectors of rows, in registers over all columns.
template <typename T, int G>
inline void add_columns_in_registers(const T* matrix, int64_t stride, const T* v, int64_t count, T* sums) {
  constexpr int64_t W = kLanes<T>;
  Vector<T> held[G] = {};
  for (int64_t p = 0; p < count; ++p) {
    const T* column = matrix + p * stride;
#pragma GCC unroll 8
    for (int g = 0; g < G; ++g) held[g] = load<T>(column + g * W) * v[p] + held[g];
  }
#pragma GCC unroll 8
  for (int g = 0; g < G; ++g) store<T>(held[g], sums + g * W);
}

// The same for a matrix in the nearest caches; the last rows again, together with some before them.
template <typename T>
void add_cached_columns(const MatrixVector<T>& x, const T* v) {
  constexpr int64_t W = kLanes<T>, kGroups = 8;
  int64_t row = 0;
  for (; row + kGroups * W <= x.rows; row += kGroups * W)
    add_columns_in_registers<T, kGroups>(x.matrix + row, x.column_stride, v, x.inner, x.result + row);
  for (; row < x.rows; row += W) {
    const int64_t at = std::min(row, x.rows - W);
    add_columns_in_registers<T, 1>(x.matrix + at, x.column_stride, v, x.inner, x.result + at);
  }
}

// sums[i] += column p of the matrix * v[p], for columns [first, end) without gaps in order.
template <typename T>
void add_columns(const MatrixVector<T>& x, const T* v, int64_t row, int64_t count, int64_t first, int64_t end,
                 T* sums) {
  std::fill_n(sums, count, T(0));
  constexpr int kAtOnce = 8;
  int64_t p = first;
  for (; p + kAtOnce <= end; p += kAtOnce) {
    const T* c = x.matrix + row + p * x.column_stride;
    const int64_t s = x.column_stride;
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) {
      T sum = sums[i];
      sum = c[i] * v[p] + sum;
      sum = c[i + s] * v[p + 1] + sum;
      sum = c[i + 2 * s] * v[p + 2] + sum;
      sum = c[i + 3 * s] * v[p + 3] + sum;
      sum = c[i + 4 * s] * v[p + 4] + sum;
      sum = c[i + 5 * s] * v[p + 5] + sum;
      sum = c[i + 6 * s] * v[p + 6] + sum;
      sum = c[i + 7 * s] * v[p + 7] + sum;
      sums[i] = sum;
    }
  }
  for (; p < end; ++p) {
    const T* c = x.matrix + row + p * x.column_stride;
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) sums[i] = c[i] * v[p] + sums[i];
  }
}

template <typename T>
void multiply_columns(const MatrixVector<T>& x, const T* v, bool parallel) {
  const int64_t depth = depth_of(x.inner), blocks = ceil_div(x.inner, depth), tiles = ceil_div(x.rows, kTile);
  if (blocks == 1 && x.rows * x.inner * static_cast<int64_t>(sizeof(T)) <= kCached) return add_cached_columns(x, v);
  if (blocks == 1) {
    parallel_for(tiles, parallel ? std::max<int64_t>(1, kGrain / (kTile * x.inner)) : tiles,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t row = begin * kTile; row < std::min(end * kTile, x.rows); row += kTile)
                     add_columns(x, v, row, std::min(kTile, x.rows - row), 0, x.inner, x.result + row);
                 });
    return;
  }
  if (tiles >= 4) {
    parallel_for(tiles, parallel ? std::max<int64_t>(1, kGrain / (kTile * x.inner)) : tiles,
                 [&](int64_t begin, int64_t end) {
                   std::vector<T> sums(kTile);
                   for (int64_t tile = begin; tile < end; ++tile) {
                     const int64_t row = tile * kTile, count = std::min(kTile, x.rows - row);
                     for (int64_t b = 0; b < blocks; ++b) {
                       add_columns(x, v, row, count, b * depth, std::min(x.inner, (b + 1) * depth), sums.data());
                       for (int64_t i = 0; i < count; ++i)
                         x.result[row + i] = b == 0 ? sums[i] : x.result[row + i] + sums[i];
                     }
                   }
                 });
    return;
  }
  // Few rows: threads take blocks, whose sums are added in order afterwards.
  std::vector<T> sums(blocks * x.rows);
  parallel_for(blocks, parallel ? std::max<int64_t>(1, kGrain / (depth * x.rows)) : blocks,
               [&](int64_t begin, int64_t end) {
                 for (int64_t b = begin; b < end; ++b)
                   for (int64_t row = 0; row < x.rows; row += kTile)
                     add_columns(x, v, row, std::min(kTile, x.rows - row), b * depth,
                                 std::min(x.inner, (b + 1) * depth), sums.data() + b * x.rows + row);
               });
  for (int64_t b = 0; b < blocks; ++b)
    for (int64_t i = 0; i < x.rows; ++i) x.result[i] = b == 0 ? sums[i] : x.result[i] + sums[b * x.rows + i];
}

}  // namespace

template <typename T>
bool has_matvec(const MatrixVector<T>& x) {
  return x.inner > 0 && x.rows >= kLanes<T> && (x.column_stride == 1 || x.row_stride == 1);
}

template <typename T>
void matvec(const MatrixVector<T>& x, bool parallel) {
  std::vector<T> copy;
  const T* v = x.vector;
  if (x.stride != 1) {
    copy.resize(x.inner);
    for (int64_t p = 0; p < x.inner; ++p) copy[p] = x.vector[p * x.stride];
    v = copy.data();
  }
  x.column_stride == 1 ? multiply_rows(x, v, parallel) : multiply_columns(x, v, parallel);
}

template bool has_matvec(const MatrixVector<float>&);
template bool has_matvec(const MatrixVector<double>&);
template void matvec(const MatrixVector<float>&, bool);
template void matvec(const MatrixVector<double>&, bool);

}  // namespace thalweg::products
