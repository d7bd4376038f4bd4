// How a product is cut: blocks of C over the threads, blocks of the inner dimension that fit the caches.
#include "products/sgemm.h"

#include <memory>
#include <vector>

#include "thread/parallel.h"

namespace thalweg::products {
namespace {

constexpr int64_t kInnerBlock = 256;   // a panel of B of this length takes half of the first-level cache
constexpr int64_t kRowBlock = 192;     // rows of A that stay in the second-level cache meanwhile
constexpr int64_t kColumnBlock = 512;  // columns of B that a thread packs at a time
// B is read where it is, if so few tiles use it that packing would cost more.
constexpr int64_t kFewRows = 2 * kTileRows;
// A transposed B with so few rows of A to meet: it is cheaper to compute the transposed product.
constexpr int64_t kRowsToTranspose = 96;
constexpr int64_t kInnerSlices = 8;
constexpr double kWorthThreads = 128 * 1024;  // multiplications

// Memory of a thread, kept for its next product.
float* scratch(int which, size_t floats) {
  thread_local std::vector<float> memory[3];
  std::vector<float>& kept = memory[which];
  if (kept.size() < floats + 16) kept.resize(floats + 16);
  const auto address = reinterpret_cast<uintptr_t>(kept.data());
  return reinterpret_cast<float*>((address + 63) / 64 * 64);
}

int64_t ceil_div(int64_t n, int64_t d) { return (n + d - 1) / d; }

struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

// One block of C: rows, columns and a range of the inner dimension, on one thread.
void multiply_block(const Product& x, Range rows, Range columns, Range inner, float* c, int64_t c_stride,
                    bool accumulate) {
  const bool a_in_place = x.a.column_stride == 1;
  const bool b_in_place = x.b.column_stride == 1 && rows.size() <= kFewRows;
  const int64_t depth = std::min(inner.size(), kInnerBlock);
  const int64_t panels = ceil_div(columns.size(), kTileColumns);
  float* packed_b = scratch(0, depth * kTileColumns * (b_in_place ? 1 : panels));
  float* packed_a = a_in_place ? nullptr : scratch(1, depth * (rows.size() + kTileRows));
  for (int64_t p = inner.begin; p < inner.end; p += depth) {
    const int64_t length = std::min(depth, inner.end - p);
    if (!a_in_place) pack_a_block(x.a, p, length, rows.begin, rows.size(), packed_a);
    if (!b_in_place) pack_b_block(x.b, p, length, columns.begin, columns.size(), packed_b);
    for (int64_t j = columns.begin; j < columns.end; j += kTileColumns) {
      const int64_t width = std::min<int64_t>(kTileColumns, columns.end - j);
      const float* b = packed_b + (j - columns.begin) * length;
      int64_t b_stride = kTileColumns;
      if (b_in_place && width == kTileColumns) {
        b = x.b.at(p, j);
        b_stride = x.b.row_stride;
      } else if (b_in_place) {
        pack_b_block(x.b, p, length, j, width, packed_b);
        b = packed_b;
      }
      const TileOfC out{c_stride, static_cast<int>(width), accumulate || p > inner.begin};
      for (int64_t i = rows.begin; i < rows.end; i += kTileRows) {
        const int height = static_cast<int>(std::min<int64_t>(kTileRows, rows.end - i));
        float* to = c + (i - rows.begin) * c_stride + (j - columns.begin);
        // The last rows fetch the next panel from the second-level cache, or from further away, into the first.
        const float* next = !b_in_place && i + kTileRows >= rows.end ? b + length * kTileColumns : nullptr;
        if (a_in_place)
          multiply_tile(height, length, x.a.at(i, p), RowsOfA{x.a.row_stride}, b, b_stride, to, out, next);
        else
          multiply_tile(height, length, packed_a + (i - rows.begin) * length, PackedA{}, b, b_stride, to, out, next);
      }
    }
  }
}

// The inner dimension is cut too, each slice into a result of its own; the slices are added in their order.
void multiply_slices(const Product& x, int64_t slices) {
  const int64_t size = x.rows * x.columns;
  std::unique_ptr<float[]> parts(new float[slices * size]);
  const int64_t length = ceil_div(ceil_div(x.inner, slices), 8) * 8;
  parallel_for(slices, 1, [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) {
      const Range inner{std::min(x.inner, s * length), std::min(x.inner, (s + 1) * length)};
      float* part = parts.get() + s * size;
      if (inner.size() == 0) std::fill(part, part + size, 0.0f);
      multiply_block(x, {0, x.rows}, {0, x.columns}, inner, part, x.columns, false);
    }
  });
  for (int64_t i = 0; i < x.rows; ++i) {
    float* to = x.c + i * x.c_stride;
    for (int64_t s = 0; s < slices; ++s) {
      const float* from = parts.get() + s * size + i * x.columns;
      if (s == 0 && !x.accumulate)
        std::copy_n(from, x.columns, to);
      else
        for (int64_t j = 0; j < x.columns; ++j) to[j] += from[j];
    }
  }
}

// c = (b' * a')': B's columns are the rows of the first operand then, and are read where they are.
void multiply_transposed(const Product& x, bool parallel) {
  std::unique_ptr<float[]> result(new float[x.rows * x.columns]);
  sgemm({x.columns, x.rows, x.inner, x.b.transposed(), x.a.transposed(), result.get(), x.rows, false}, parallel);
  parallel_for(x.rows, parallel ? std::max<int64_t>(1, 65536 / x.columns) : x.rows, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float* to = x.c + i * x.c_stride;
      const float* from = result.get() + i;
      if (x.accumulate)
        for (int64_t j = 0; j < x.columns; ++j) to[j] += from[j * x.rows];
      else
        for (int64_t j = 0; j < x.columns; ++j) to[j] = from[j * x.rows];
    }
  });
}

}  // namespace

void sgemm(const Product& x, bool parallel) {
  if (x.b.column_stride != 1 && x.a.column_stride == 1 && x.rows < kRowsToTranspose && x.columns > x.rows)
    return multiply_transposed(x, parallel);
  const double work = static_cast<double>(x.rows) * x.columns * x.inner;
  if (!parallel || work < kWorthThreads) {
    for (int64_t j = 0; j < x.columns; j += kColumnBlock)
      for (int64_t i = 0; i < x.rows; i += kRowBlock)
        multiply_block(x, {i, std::min(x.rows, i + kRowBlock)}, {j, std::min(x.columns, j + kColumnBlock)},
                       {0, x.inner}, x.c + i * x.c_stride + j, x.c_stride, x.accumulate);
    return;
  }
  if (x.inner >= 1024 && x.inner >= 4 * std::max(x.rows, x.columns)) return multiply_slices(x, kInnerSlices);
  // Blocks as large as leave enough of them for all threads.
  const int64_t wanted = std::max(8, 3 * intra_op_threads());
  int64_t row_block = kRowBlock, column_block = kColumnBlock;
  auto blocks = [&] { return ceil_div(x.rows, row_block) * ceil_div(x.columns, column_block); };
  if (blocks() < wanted) row_block = 96;
  if (blocks() < wanted) column_block = 256;
  if (blocks() < wanted) column_block = 128;
  if (blocks() < wanted && x.rows > 48) row_block = 48;
  if (blocks() < wanted) column_block = 64;
  const int64_t across = ceil_div(x.columns, column_block);
  parallel_for(blocks(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t i = block / across * row_block, j = block % across * column_block;
      multiply_block(x, {i, std::min(x.rows, i + row_block)}, {j, std::min(x.columns, j + column_block)}, {0, x.inner},
                     x.c + i * x.c_stride + j, x.c_stride, x.accumulate);
    }
  });
}

int64_t packed_b_size(int64_t columns, int64_t inner) { return ceil_div(columns, kTileColumns) * kTileColumns * inner; }

int64_t packed_b_index(int64_t columns, int64_t inner, int64_t i, int64_t j) {
  const int64_t block = i / kInnerBlock * kInnerBlock, length = std::min(kInnerBlock, inner - block);
  return packed_b_size(columns, block) + (j / kTileColumns * length + i - block) * kTileColumns + j % kTileColumns;
}

void pack_b(const Matrix& b, int64_t columns, int64_t inner, float* to) {
  for (int64_t p = 0; p < inner; p += kInnerBlock) {
    const int64_t length = std::min(kInnerBlock, inner - p);
    pack_b_block(b, p, length, 0, columns, to);
    to += length * ceil_div(columns, kTileColumns) * kTileColumns;
  }
}

namespace {

// The columns of a product with a packed B, which has `all` of them.
void multiply_packed_columns(int64_t rows, int64_t all, Range columns, int64_t inner, const float* a, int64_t a_stride,
                             const float* b, float* c, int64_t c_stride, bool accumulate) {
  for (int64_t p = 0; p < inner; p += kInnerBlock) {
    const int64_t length = std::min(kInnerBlock, inner - p);
    const float* block = b + packed_b_size(all, p);
    for (int64_t j = columns.begin; j < columns.end; j += kTileColumns) {
      const TileOfC out{c_stride, static_cast<int>(std::min<int64_t>(kTileColumns, columns.end - j)),
                        accumulate || p > 0};
      const float* panel = block + j * length;
      for (int64_t i = 0; i < rows; i += kTileRows)
        multiply_tile(static_cast<int>(std::min<int64_t>(kTileRows, rows - i)), length, a + i * a_stride + p,
                      RowsOfA{a_stride}, panel, kTileColumns, c + i * c_stride + j, out,
                      i + kTileRows >= rows ? panel + length * kTileColumns : nullptr);
    }
  }
}

}  // namespace

void multiply_packed(int64_t rows, int64_t columns, int64_t inner, const float* a, int64_t a_stride, const float* b,
                     float* c, int64_t c_stride, bool accumulate) {
  multiply_packed_columns(rows, columns, {0, columns}, inner, a, a_stride, b, c, c_stride, accumulate);
}

void sgemm_packed(int64_t rows, int64_t columns, int64_t inner, const float* a, int64_t a_stride, const float* b,
                  float* c, int64_t c_stride, bool accumulate) {
  const double work = static_cast<double>(rows) * columns * inner;
  // Blocks of columns read their part of B once; more rows than a cache holds are cut as well.
  const int64_t row_block = std::min(rows, kRowBlock), wanted = 3 * intra_op_threads();
  const int64_t down = ceil_div(rows, row_block), panels = ceil_div(columns, kTileColumns);
  const int64_t panels_at_once = work < kWorthThreads ? panels : std::max<int64_t>(1, panels * down / wanted);
  const int64_t across = ceil_div(panels, panels_at_once);
  parallel_for(down * across, work < kWorthThreads ? down * across : 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t i = block % down * row_block, j = block / down * panels_at_once * kTileColumns;
      multiply_packed_columns(std::min(row_block, rows - i), columns,
                              {j, std::min(columns, j + panels_at_once * kTileColumns)}, inner, a + i * a_stride,
                              a_stride, b, c + i * c_stride, c_stride, accumulate);
    }
  });
}

}  // namespace thalweg::products
