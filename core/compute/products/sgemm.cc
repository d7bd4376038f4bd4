// How a product is cut: blocks of C over the threads, blocks of the inner dimension that fit the caches.
#include "compute/products/sgemm.h"

#include <memory>
#include <optional>
#include <vector>

#include "thread/parallel.h"

namespace thalweg::products {
namespace {

constexpr int64_t kRowBlock = 192;     // rows of A that stay in the second-level cache
constexpr int64_t kColumnBlock = 256;  // columns of B that a thread packs at a time, and that stay there as well
// A row-major A is read where it is, if so few columns use it that packing would cost more.
constexpr int64_t kFewColumns = 256;
constexpr int64_t kCacheWay = 1024;  // floats after which addresses meet in a first-level cache
// Of A, this much is packed at a time, for all threads.
constexpr int64_t kMostPacked = 4 << 20, kMostPackedInner = 4096;
constexpr size_t kMostKept = 1 << 20;  // floats that a thread keeps
// With so few rows the packing of B counts (and pairs of tiles gain nothing).
constexpr int64_t kFewRows = 96, kFewRowsOfPairs = 48;
// A transposed B with so few rows of A to meet: it is cheaper to compute the transposed product.
constexpr int64_t kRowsToTranspose = 96;
constexpr int64_t kSlices = 8;                // blocks of the inner dimension whose products are formed at once
constexpr int64_t kSmallResult = 32 * 1024;   // has too few blocks for many threads
constexpr double kWorthThreads = 128 * 1024;  // multiplications

// Memory of a thread, kept for its next product.
float* scratch(int which, size_t floats) {
  thread_local std::vector<float> memory[3];
  std::vector<float>& buffer = memory[which];
  if (buffer.size() < floats + 16) buffer.resize(floats + 16);
  const auto address = reinterpret_cast<uintptr_t>(buffer.data());
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

// The blocks of the inner dimension: equal, and as long as lets a panel of B stay in the first-level cache. They alone
// decide how sums are rounded.
int64_t depth_of(int64_t inner) { return equal_parts(inner, kLongestWhole, 8); }

// An operand in panels, block after block of the inner dimension, packed by all threads.
class Packed {
 public:
  // Of A's rows or B's columns, `panel` at a time. pack(p, length, first, lines, to) packs some of them.
  template <typename Pack>
  Packed(int which, int64_t lines, int64_t panel, int64_t inner, int64_t depth, bool parallel, const Pack& pack)
      : lines_(ceil_div(lines, panel) * panel) {
    const size_t floats = lines_ * inner;
    if (floats > kMostKept) own_.reset(new float[floats]);
    float* to = own_ ? own_.get() : scratch(which, floats);
    data_ = to;
    parallel_for(lines_ / panel, parallel ? ceil_div(8192, inner) : lines_, [&](int64_t begin, int64_t end) {
      const int64_t first = begin * panel, some = std::min(lines, end * panel) - first;
      for (int64_t p = 0; p < inner; p += depth) {
        const int64_t length = std::min(depth, inner - p);
        pack(p, length, first, some, to + p * lines_ + first * length);
      }
    });
  }
  const float* at(int64_t line, int64_t p, int64_t length) const { return data_ + p * lines_ + line * length; }

 private:
  int64_t lines_;
  std::unique_ptr<float[]> own_;
  const float* data_;
};

// The operands of a product, which may have been packed. Blocks of the inner dimension have `depth` elements.
struct Operands {
  Operands(const Product& product, int64_t length) : x(product), depth(length) {}

  void pack_a(bool parallel) {
    packed_a.emplace(1, x.rows, kTileRows, x.inner, depth, parallel,
                     [&](auto... block) { pack_a_block(x.a, block...); });
  }
  void pack_b(bool parallel) {
    packed_b.emplace(2, x.columns, kTileColumns, x.inner, depth, parallel,
                     [&](auto... block) { pack_b_block(x.b, block...); });
  }
  // Calls body(a, layout) for the rows of A from i on, and its columns from p on.
  template <typename Body>
  void with_a(int64_t i, int64_t p, int64_t length, const Body& body) const {
    if (packed_a)
      body(packed_a->at(i, p, length), PackedA{});
    else
      body(x.a.at(i, p), RowsOfA{x.a.row_stride});
  }

  // Whether the rows of an A that is not packed compete for the same few places of the first-level cache.
  bool rows_collide() const { return !packed_a && x.a.row_stride % kCacheWay == 0; }

  const Product& x;
  const int64_t depth;
  std::optional<Packed> packed_a, packed_b;
};

// One block of C, on one thread, which packs the B that it needs, unless that was done.
void multiply_block(const Operands& operands, Range rows, Range columns) {
  const Product& x = operands.x;
  const int64_t depth = operands.depth, panels = ceil_div(columns.size(), kTileColumns);
  const int64_t rows_at_once = equal_parts(rows.size(), kRowBlock, kTileRows);
  float* own_b = operands.packed_b ? nullptr : scratch(0, depth * kTileColumns * panels);
  const bool in_pairs = has_wide_registers() && !operands.rows_collide();

  // The panels of B from column j on.
  auto panel = [&](int64_t p, int64_t length, int64_t j) {
    return own_b != nullptr ? own_b + (j - columns.begin) * length : operands.packed_b->at(j, p, length);
  };
  auto tile_of_c = [&](int64_t p, int64_t j) {
    const int width = static_cast<int>(std::min<int64_t>(kTileColumns, columns.end - j));
    return TileOfC{x.c_stride, width, x.accumulate || p > 0, x.scale};
  };
  auto multiply_panel = [&](Range some, int64_t p, int64_t length, int64_t j) {
    const float* b = panel(p, length, j);
    for (int64_t i = some.begin; i < some.end; i += kTileRows) {
      const int height = static_cast<int>(std::min<int64_t>(kTileRows, some.end - i));
      // The last rows fetch the next panel from the second-level cache, or from further away, into the first.
      const float* next = i + kTileRows >= some.end ? b + length * kTileColumns : nullptr;
      operands.with_a(i, p, length, [&](const float* a, auto layout) {
        multiply_tile(height, length, a, layout, b, kTileColumns, x.c + i * x.c_stride + j, tile_of_c(p, j), next);
      });
    }
  };
  // The rows of two tiles, which stay in the first-level cache, by all panels without gaps.
  const int64_t whole = columns.begin + columns.size() / kTileColumns * kTileColumns;
  auto multiply_rows_of_pairs = [&](int64_t i, int64_t p, int64_t length) {
    operands.with_a(i, p, length, [&](const float* a, auto layout) {
      const TileOfC out = tile_of_c(p, columns.begin);
      float* c = x.c + i * x.c_stride;
      int64_t j = columns.begin;
      for (; j + 2 * kTileColumns <= whole; j += 2 * kTileColumns) {
        // The last columns fetch the next rows of A, if they lie side by side.
        const bool last = operands.packed_a && j + 4 * kTileColumns > whole;
        multiply_pairs_of_tiles<2>(length, a, layout, panel(p, length, j), c + j, out,
                                   last ? a + 2 * layout.tile_stride(length) : nullptr);
      }
      if (j < whole) multiply_pairs_of_tiles<1>(length, a, layout, panel(p, length, j), c + j, out);
    });
  };

  for (int64_t p = 0; p < x.inner; p += depth) {
    const int64_t length = std::min(depth, x.inner - p);
    if (own_b != nullptr) pack_b_block(x.b, p, length, columns.begin, columns.size(), own_b);
    int64_t i = rows.begin;
    if (in_pairs && whole > columns.begin) {
      for (; i + 2 * kTileRows <= rows.end; i += 2 * kTileRows) multiply_rows_of_pairs(i, p, length);
      if (whole < columns.end) multiply_panel({rows.begin, i}, p, length, whole);
    }
    for (; i < rows.end; i += rows_at_once)
      for (int64_t j = columns.begin; j < columns.end; j += kTileColumns)
        multiply_panel({i, std::min(rows.end, i + rows_at_once)}, p, length, j);
  }
}

// The same for a row-major B and so few rows that packing counts: the first tile packs the rows of B that it reads,
// panel by panel, and the others read them from the nearest cache.
void multiply_few_rows(const Operands& operands, Range rows, Range columns) {
  const Product& x = operands.x;
  const int64_t depth = operands.depth;
  const bool in_pairs = has_wide_registers() && !operands.rows_collide();
  float* panel = scratch(0, depth * kTileColumns);

  auto multiply_panel = [&](int64_t p, int64_t length, int64_t j) {
    const int width = static_cast<int>(std::min<int64_t>(kTileColumns, columns.end - j));
    const TileOfC out{x.c_stride, width, x.accumulate || p > 0, x.scale};
    bool packed = width < kTileColumns;
    if (packed) pack_b_block(x.b, p, length, j, width, panel);
    int64_t i = rows.begin;
    for (; in_pairs && width == kTileColumns && i + 2 * kTileRows <= rows.end; i += 2 * kTileRows) {
      float* to = x.c + i * x.c_stride + j;
      operands.with_a(i, p, length, [&](const float* a, auto layout) {
        if (packed)
          multiply_pairs_of_tiles<1>(length, a, layout, panel, to, out);
        else
          multiply_pair_of_tiles_and_pack(length, a, layout, x.b.at(p, j), x.b.row_stride, to, out, panel);
      });
      packed = true;
    }
    for (int64_t left = ceil_div(rows.end - i, kTileRows); left > 0; --left) {
      // Equal heights, if A allows: a tile of few rows would wait for its own sums.
      const int64_t height =
          operands.packed_a ? std::min<int64_t>(kTileRows, rows.end - i) : ceil_div(rows.end - i, left);
      float* to = x.c + i * x.c_stride + j;
      operands.with_a(i, p, length, [&](const float* a, auto layout) {
        if (packed)
          multiply_tile(height, length, a, layout, panel, kTileColumns, to, out);
        else if (left == 1)
          multiply_tile(height, length, a, layout, x.b.at(p, j), x.b.row_stride, to, out);
        else
          multiply_tile_and_pack(height, length, a, layout, x.b.at(p, j), x.b.row_stride, to, out, panel);
      });
      packed = true;
      i += height;
    }
  };

  for (int64_t p = 0; p < x.inner; p += depth)
    for (int64_t j = columns.begin; j < columns.end; j += kTileColumns)
      multiply_panel(p, std::min(depth, x.inner - p), j);
}

// A is packed once, by all threads, and so is a narrow B; otherwise each block of C packs the B that it needs.
void multiply_blocks(const Product& x, int64_t depth, bool parallel) {
  // Blocks as large as possible with enough of them for all threads.
  const int threads = parallel ? intra_op_threads() : 1;
  const int64_t wanted = threads == 1 ? 1 : std::max(8, 3 * threads);
  int64_t row_block = x.rows, column_block = kColumnBlock;
  auto down = [&] { return ceil_div(x.rows, row_block); };
  auto across = [&] { return ceil_div(x.columns, column_block); };
  auto cut_rows = [&](int64_t least) {
    while (down() * across() < wanted && row_block > least)
      row_block = equal_parts(row_block, ceil_div(row_block, 2), kTileRows);
  };
  if (down() * across() < wanted) column_block = 128;
  cut_rows(2 * kRowBlock);
  if (down() * across() < wanted) column_block = 64;
  cut_rows(48);

  Operands operands(x, depth);
  if (x.a.column_stride != 1 || x.columns > kFewColumns) operands.pack_a(parallel);
  const bool few_rows = x.b.column_stride == 1 && row_block <= (has_wide_registers() ? kFewRowsOfPairs : kFewRows);
  if (!few_rows && across() == 1 && down() > 1) operands.pack_b(parallel);
  const int64_t blocks = down() * across();
  parallel_for(blocks, parallel ? 1 : blocks, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t i = block % down() * row_block, j = block / down() * column_block;
      (few_rows ? multiply_few_rows : multiply_block)(operands, {i, std::min(x.rows, i + row_block)},
                                                      {j, std::min(x.columns, j + column_block)});
    }
  });
}

// In parts of which A can be packed as a whole.
void multiply_parts(const Product& x, int64_t depth, bool parallel) {
  const int64_t inner = std::min(x.inner, kMostPackedInner / depth * depth), rows = kMostPacked / inner;
  for (int64_t i = 0; i < x.rows; i += rows)
    for (int64_t p = 0; p < x.inner; p += inner)
      multiply_blocks({std::min(rows, x.rows - i), x.columns, std::min(inner, x.inner - p), x.a.from(i, p),
                       x.b.from(p, 0), x.c + i * x.c_stride, x.c_stride, x.accumulate || p > 0, x.scale},
                      depth, parallel);
}

// A small result of a long inner dimension: threads form the products of its blocks, which are then added in order.
void multiply_slices(const Product& x, int64_t depth) {
  const int64_t size = x.rows * x.columns, blocks = ceil_div(x.inner, depth);
  std::unique_ptr<float[]> parts(new float[kSlices * size]);
  for (int64_t first = 0; first < blocks; first += kSlices) {
    const int64_t count = std::min(kSlices, blocks - first);
    parallel_for(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s) {
        const int64_t p = (first + s) * depth;
        multiply_blocks({x.rows, x.columns, std::min(depth, x.inner - p), x.a.from(0, p), x.b.from(p, 0),
                         parts.get() + s * size, x.columns},
                        depth, false);
      }
    });
    for (int64_t i = 0; i < x.rows; ++i) {
      float* to = x.c + i * x.c_stride;
      for (int64_t s = 0; s < count; ++s) {
        const float* from = parts.get() + s * size + i * x.columns;
        if (first + s == 0 && !x.accumulate)
          std::copy_n(from, x.columns, to);
        else
          for (int64_t j = 0; j < x.columns; ++j) to[j] += from[j] * x.scale;
      }
    }
  }
}

// Columns [begin, end) of c, from the rows of its transpose.
void store_transposed(const Product& x, const float* transpose, int64_t begin, int64_t end) {
  auto store = [&](int64_t i, int64_t j) {
    const float value = transpose[j * x.rows + i];
    float& to = x.c[i * x.c_stride + j];
    to = x.accumulate ? to + value * x.scale : value;
  };
  const int64_t whole_rows = x.rows / 8 * 8, whole_end = begin + (end - begin) / 8 * 8;
  const __m256 scale = _mm256_set1_ps(x.scale);
  for (int64_t j = begin; j < whole_end; j += 8) {
    for (int64_t i = 0; i < whole_rows; i += 8) {
      __m256 r[8];
#pragma GCC unroll 8
      for (int k = 0; k < 8; ++k) r[k] = _mm256_loadu_ps(transpose + (j + k) * x.rows + i);
      detail::transpose_8x8(r);
#pragma GCC unroll 8
      for (int k = 0; k < 8; ++k) {
        float* to = x.c + (i + k) * x.c_stride + j;
        _mm256_storeu_ps(to, x.accumulate ? _mm256_add_ps(_mm256_loadu_ps(to), _mm256_mul_ps(r[k], scale)) : r[k]);
      }
    }
    for (int64_t i = whole_rows; i < x.rows; ++i)
      for (int64_t k = 0; k < 8; ++k) store(i, j + k);
  }
  for (int64_t j = whole_end; j < end; ++j)
    for (int64_t i = 0; i < x.rows; ++i) store(i, j);
}

// c = (b' * a')': B's columns are the rows of the first operand then, and are read where they are.
void multiply_transposed(const Product& x, bool parallel) {
  std::unique_ptr<float[]> result(new float[x.rows * x.columns]);
  sgemm({x.columns, x.rows, x.inner, x.b.transposed(), x.a.transposed(), result.get(), x.rows}, parallel);
  parallel_for(x.columns, parallel ? std::max<int64_t>(8, 65536 / x.rows) : x.columns,
               [&](int64_t begin, int64_t end) { store_transposed(x, result.get(), begin, end); });
}

}  // namespace

void sgemm(const Product& x, bool parallel) {
  if (x.rows == 0 || x.columns == 0) return;
  if (x.inner == 0) {
    for (int64_t i = 0; i < x.rows && !x.accumulate; ++i) std::fill_n(x.c + i * x.c_stride, x.columns, 0.0f);
    return;
  }
  if (x.b.column_stride != 1 && x.a.column_stride == 1 && x.rows < kRowsToTranspose && x.columns > x.rows)
    return multiply_transposed(x, parallel);
  const double work = static_cast<double>(x.rows) * x.columns * x.inner;
  parallel = parallel && work >= kWorthThreads;
  const int64_t depth = depth_of(x.inner);
  if (parallel && x.inner >= 1024 && x.inner >= 4 * std::max(x.rows, x.columns) && x.rows * x.columns <= kSmallResult)
    return multiply_slices(x, depth);
  multiply_parts(x, depth, parallel);
}

int64_t packed_b_size(int64_t columns, int64_t inner) { return ceil_div(columns, kTileColumns) * kTileColumns * inner; }

int64_t packed_b_index(int64_t columns, int64_t inner, int64_t i, int64_t j) {
  const int64_t depth = depth_of(inner), block = i / depth * depth, length = std::min(depth, inner - block);
  return packed_b_size(columns, block) + (j / kTileColumns * length + i - block) * kTileColumns + j % kTileColumns;
}

void pack_b(const Matrix& b, int64_t columns, int64_t inner, float* to) {
  const int64_t depth = depth_of(inner);
  for (int64_t p = 0; p < inner; p += depth) {
    const int64_t length = std::min(depth, inner - p);
    pack_b_block(b, p, length, 0, columns, to);
    to += length * ceil_div(columns, kTileColumns) * kTileColumns;
  }
}

namespace {

// Rows of A as tiles read them: where they are, or packed if they compete for places in the first-level cache and
// enough columns of B use them.
class RowsForTiles {
 public:
  RowsForTiles(const float* a, int64_t stride, int64_t rows, int64_t length, int64_t columns)
      : a_(a), stride_(stride), length_(length) {
    if (stride % kCacheWay != 0 || columns < kFewColumns || rows < 2 * kTileRows || !has_wide_registers()) return;
    float* to = scratch(1, ceil_div(rows, kTileRows) * kTileRows * length);
    pack_a_block({a, stride, 1}, 0, length, 0, rows, to);
    packed_ = to;
  }
  bool packed() const { return packed_ != nullptr; }
  // Whether pairs of tiles read them from the first-level cache.
  bool suit_pairs() const { return has_wide_registers() && (packed() || stride_ % kCacheWay != 0); }
  // Calls body(a, layout) for the rows from i on: a multiple of kTileRows if they are packed.
  template <typename Body>
  void at(int64_t i, const Body& body) const {
    if (packed())
      body(packed_ + i * length_, PackedA{});
    else
      body(a_ + i * stride_, RowsOfA{stride_});
  }

 private:
  const float* a_;
  int64_t stride_, length_;
  const float* packed_ = nullptr;
};

// The columns of a product with a packed B, which has `all` of them.
void multiply_packed_columns(int64_t rows, int64_t all, Range columns, int64_t inner, const float* a, int64_t a_stride,
                             const float* b, float* c, int64_t c_stride, bool accumulate) {
  const int64_t depth = depth_of(inner);
  for (int64_t p = 0; p < inner; p += depth) {
    const int64_t length = std::min(depth, inner - p);
    const float* block = b + packed_b_size(all, p);
    const RowsForTiles rows_of_a(a + p, a_stride, rows, length, columns.size());
    auto multiply_panel = [&](Range some, int64_t j) {
      const TileOfC out{c_stride, static_cast<int>(std::min<int64_t>(kTileColumns, columns.end - j)),
                        accumulate || p > 0};
      const float* panel = block + j * length;
      for (int64_t i = some.begin, left = ceil_div(some.size(), kTileRows); left > 0; --left) {
        // Equal heights, if A allows: a tile of few rows would wait for its own sums.
        const int64_t height =
            rows_of_a.packed() ? std::min<int64_t>(kTileRows, some.end - i) : ceil_div(some.end - i, left);
        rows_of_a.at(i, [&](const float* from, auto layout) {
          multiply_tile(height, length, from, layout, panel, kTileColumns, c + i * c_stride + j, out,
                        left == 1 ? panel + length * kTileColumns : nullptr);
        });
        i += height;
      }
    };
    auto multiply_rows_of_pairs = [&](int64_t i, Range whole) {
      rows_of_a.at(i, [&](const float* from, auto layout) {
        const TileOfC out{c_stride, kTileColumns, accumulate || p > 0};
        float* to = c + i * c_stride;
        int64_t j = whole.begin;
        for (; j + 2 * kTileColumns <= whole.end; j += 2 * kTileColumns)
          multiply_pairs_of_tiles<2>(length, from, layout, block + j * length, to + j, out);
        if (j < whole.end) multiply_pairs_of_tiles<1>(length, from, layout, block + j * length, to + j, out);
      });
    };
    // As many columns at once as stay in the second-level cache, for all rows.
    for (int64_t begin = columns.begin; begin < columns.end; begin += kColumnBlock) {
      const int64_t end = std::min(columns.end, begin + kColumnBlock);
      const int64_t whole = begin + (end - begin) / kTileColumns * kTileColumns;
      int64_t i = 0;
      if (rows_of_a.suit_pairs() && whole > begin) {
        for (; i + 2 * kTileRows <= rows; i += 2 * kTileRows) multiply_rows_of_pairs(i, {begin, whole});
        if (whole < end && i > 0) multiply_panel({0, i}, whole);
      }
      for (int64_t j = begin; i < rows && j < end; j += kTileColumns) multiply_panel({i, rows}, j);
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
