// How a product is cut: blocks of C over the threads, blocks of the inner dimension that fit the caches.
#include "products/sgemm.h"

#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "thread/parallel.h"

namespace thalweg::products {
namespace {

constexpr int64_t kInnerBlock = 256;  // of a packed B: a panel of this length takes half of the first-level cache
constexpr int64_t kMostInner =
    kLongestWhole;                  // otherwise blocks are equal, up to this length: fewer visits to C count for more
constexpr int64_t kRowBlock = 192;  // rows of A that stay in the second-level cache
constexpr int64_t kColumnBlock = 256;  // columns of B that a thread packs at a time, and that stay there as well
// A row-major A is read where it is, if so few columns use it that packing would cost more.
constexpr int64_t kFewColumns = 256;
// Of A, this much is packed at a time, for all threads.
constexpr int64_t kMostPacked = 4 << 20, kMostPackedInner = 4096;
constexpr size_t kMostKept = 1 << 20;  // floats that a thread keeps
// B is read where it is, if so few tiles use it that packing would cost more.
constexpr int64_t kFewRows = 2 * kTileRows;
// A transposed B with so few rows of A to meet: it is cheaper to compute the transposed product.
constexpr int64_t kRowsToTranspose = 96;
constexpr int64_t kInnerSlices = 8;
constexpr int64_t kSmallResult = 32 * 1024;   // has too few blocks for many threads
constexpr double kWorthThreads = 128 * 1024;  // multiplications

// Memory of a thread, kept for its next product.
float* scratch(int which, size_t floats) {
  thread_local std::vector<float> memory[2];
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

// `size` in equal parts of at most `most`, multiples of `unit`.
int64_t equal_parts(int64_t size, int64_t most, int64_t unit) {
  return ceil_div(ceil_div(size, ceil_div(size, most)), unit) * unit;
}

// A in panels, block after block of the inner dimension.
class PackedRows {
 public:
  PackedRows(const Product& x, int64_t depth, bool parallel)
      : depth_(depth), rows_(ceil_div(x.rows, kTileRows) * kTileRows) {
    const size_t floats = rows_ * x.inner;
    if (floats > kMostKept) own_.reset(new float[floats]);
    float* to = own_ ? own_.get() : scratch(1, floats);
    data_ = to;
    parallel_for(rows_ / kTileRows, parallel ? ceil_div(8192, x.inner) : rows_, [&](int64_t begin, int64_t end) {
      const int64_t first = begin * kTileRows, rows = std::min(x.rows, end * kTileRows) - first;
      for (int64_t p = 0; p < x.inner; p += depth_) {
        const int64_t length = std::min(depth_, x.inner - p);
        pack_a_block(x.a, p, length, first, rows, to + p * rows_ + first * length);
      }
    });
  }
  const float* at(int64_t i, int64_t p, int64_t length) const { return data_ + p * rows_ + i * length; }

 private:
  int64_t depth_, rows_;
  std::unique_ptr<float[]> own_;
  const float* data_;
};

// One block of C, on one thread. B is packed, A may be; otherwise they are read where they are.
void multiply_block(const Product& x, const PackedRows* packed_a, Range rows, Range columns, int64_t depth) {
  const bool b_in_place = x.b.column_stride == 1 && rows.size() <= kFewRows;
  const int64_t panels = ceil_div(columns.size(), kTileColumns);
  float* packed_b = scratch(0, depth * kTileColumns * (b_in_place ? 1 : panels));
  const int64_t rows_at_once = equal_parts(rows.size(), kRowBlock, kTileRows);

  auto multiply_panel = [&](Range some, int64_t p, int64_t length, int64_t j) {
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
    const TileOfC out{x.c_stride, static_cast<int>(width), x.accumulate || p > 0, x.scale};
    for (int64_t i = some.begin; i < some.end; i += kTileRows) {
      const int height = static_cast<int>(std::min<int64_t>(kTileRows, some.end - i));
      float* to = x.c + i * x.c_stride + j;
      // The last rows fetch the next panel from the second-level cache, or from further away, into the first.
      const float* next = !b_in_place && i + kTileRows >= some.end ? b + length * kTileColumns : nullptr;
      if (packed_a != nullptr)
        multiply_tile(height, length, packed_a->at(i, p, length), PackedA{}, b, b_stride, to, out, next);
      else
        multiply_tile(height, length, x.a.at(i, p), RowsOfA{x.a.row_stride}, b, b_stride, to, out, next);
    }
  };

  for (int64_t p = 0; p < x.inner; p += depth) {
    const int64_t length = std::min(depth, x.inner - p);
    if (!b_in_place) pack_b_block(x.b, p, length, columns.begin, columns.size(), packed_b);
    for (int64_t i = rows.begin; i < rows.end; i += rows_at_once)
      for (int64_t j = columns.begin; j < columns.end; j += kTileColumns)
        multiply_panel({i, std::min(rows.end, i + rows_at_once)}, p, length, j);
  }
}

// A is packed once, by all threads; each block of C packs the B that it needs.
void multiply_blocks(const Product& x, bool parallel) {
  // Blocks as large as leave enough of them for all threads.
  const int threads = parallel ? intra_op_threads() : 1;
  const int64_t wanted = threads == 1 ? 1 : std::max(8, 3 * threads);
  int64_t row_block = x.rows, column_block = kColumnBlock;
  auto blocks = [&] { return ceil_div(x.rows, row_block) * ceil_div(x.columns, column_block); };
  auto cut_rows = [&](int64_t least) {
    while (blocks() < wanted && row_block > least)
      row_block = equal_parts(row_block, ceil_div(row_block, 2), kTileRows);
  };
  if (blocks() < wanted) column_block = 128;
  cut_rows(2 * kRowBlock);
  if (blocks() < wanted) column_block = 64;
  cut_rows(48);

  const int64_t depth = equal_parts(x.inner, kMostInner, 8);
  std::optional<PackedRows> packed_a;
  if (x.a.column_stride != 1 || x.columns > kFewColumns) packed_a.emplace(x, depth, parallel);
  const int64_t across = ceil_div(x.columns, column_block);
  parallel_for(blocks(), parallel ? 1 : blocks(), [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t i = block / across * row_block, j = block % across * column_block;
      multiply_block(x, packed_a ? &*packed_a : nullptr, {i, std::min(x.rows, i + row_block)},
                     {j, std::min(x.columns, j + column_block)}, depth);
    }
  });
}

// In parts of which A can be packed as a whole.
void multiply_parts(const Product& x, bool parallel) {
  const int64_t inner = equal_parts(x.inner, kMostPackedInner, 8), rows = kMostPacked / inner;
  for (int64_t i = 0; i < x.rows; i += rows)
    for (int64_t p = 0; p < x.inner; p += inner)
      multiply_blocks({std::min(rows, x.rows - i), x.columns, std::min(inner, x.inner - p), x.a.from(i, p),
                       x.b.from(p, 0), x.c + i * x.c_stride, x.c_stride, x.accumulate || p > 0, x.scale},
                      parallel);
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
      if (inner.size() == 0)
        std::fill(part, part + size, 0.0f);
      else
        multiply_parts(
            {x.rows, x.columns, inner.size(), x.a.from(0, inner.begin), x.b.from(inner.begin, 0), part, x.columns},
            false);
    }
  });
  for (int64_t i = 0; i < x.rows; ++i) {
    float* to = x.c + i * x.c_stride;
    for (int64_t s = 0; s < slices; ++s) {
      const float* from = parts.get() + s * size + i * x.columns;
      if (s == 0 && !x.accumulate)
        std::copy_n(from, x.columns, to);
      else
        for (int64_t j = 0; j < x.columns; ++j) to[j] = std::fma(from[j], x.scale, to[j]);
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
        for (int64_t j = 0; j < x.columns; ++j) to[j] = std::fma(from[j * x.rows], x.scale, to[j]);
      else
        for (int64_t j = 0; j < x.columns; ++j) to[j] = from[j * x.rows];
    }
  });
}

}  // namespace

void sgemm(const Product& x, bool parallel) {
  if (x.inner == 0) {
    for (int64_t i = 0; i < x.rows && !x.accumulate; ++i) std::fill_n(x.c + i * x.c_stride, x.columns, 0.0f);
    return;
  }
  if (x.b.column_stride != 1 && x.a.column_stride == 1 && x.rows < kRowsToTranspose && x.columns > x.rows)
    return multiply_transposed(x, parallel);
  const double work = static_cast<double>(x.rows) * x.columns * x.inner;
  parallel = parallel && work >= kWorthThreads;
  if (parallel && x.inner >= 1024 && x.inner >= 4 * std::max(x.rows, x.columns) && x.rows * x.columns <= kSmallResult)
    return multiply_slices(x, kInnerSlices);
  multiply_parts(x, parallel);
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
