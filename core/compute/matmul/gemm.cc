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

constexpr int64_t kInnerBlock = 256;  // A packed panel of b (two vectors' width) stays in the first-level cache.
constexpr int64_t kRowBlock = 96;
constexpr int64_t kColumnBlock = 1024;
// A row-major a is read where it is, if so few columns use it that packing would cost more.
constexpr int64_t kFewColumns = 128;
constexpr int64_t kCacheWay = 4096;  // bytes after which addresses meet in a first-level cache

// A tile of the result in registers: kTileRows x 2 vectors of sums, 2 of b, 1 of a.
template <typename T, int kBytes>
struct Tile {
  typedef T Vector __attribute__((vector_size(kBytes), aligned(sizeof(T)), may_alias));
  static constexpr int kLanes = kBytes / sizeof(T);
  static constexpr int kColumns = 2 * kLanes;
  static constexpr int kRows = kBytes == 64 ? 12 : 6;  // 27 of AVX-512's 32 registers, 15 of AVX2's 16
};

// How the elements lie that a tile reads of a: element (i, k) at a[i * row_stride + k * inner_stride].
struct LayoutOfA {
  int64_t row_stride, inner_stride;
};

// Where a finished tile gets: c[i * stride + j], for as many rows and columns.
struct TileOfC {
  int64_t stride, height, width;
  bool add;  // to what is there
};

// Whole tiles are stored in vectors, parts of one element by element.
template <int kHeight, int kVectors, typename X, typename T>
[[gnu::always_inline]] inline void store_tile(const typename X::Vector (&sum)[kHeight][kVectors], T* c,
                                              const TileOfC& out) {
  using Vector = typename X::Vector;
  if (out.height == kHeight && out.width == kVectors * X::kLanes) {
#pragma GCC unroll 12
    for (int i = 0; i < kHeight; ++i) {
      Vector* row = reinterpret_cast<Vector*>(c + i * out.stride);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) row[v] = out.add ? row[v] + sum[i][v] : sum[i][v];
    }
    return;
  }
  T whole[kHeight][kVectors * X::kLanes];
  std::memcpy(whole, sum, sizeof(whole));
  for (int64_t i = 0; i < out.height; ++i)
    for (int64_t j = 0; j < out.width; ++j)
      c[i * out.stride + j] = out.add ? c[i * out.stride + j] + whole[i][j] : whole[i][j];
}

// A tile = kHeight rows of a times the first kVectors vectors of a panel of b, each sum in the order of k: the same
// bits for any width of the registers.
template <int kHeight, int kVectors, typename X, typename T>
[[gnu::always_inline]] inline void sum_tile(const T* a, LayoutOfA layout, const T* b, int64_t inner, T* c,
                                            const TileOfC& out) {
  using Vector = typename X::Vector;
  Vector sum[kHeight][kVectors] = {};
  const int64_t row_stride = layout.row_stride;
  for (int64_t k = 0; k < inner; ++k, a += layout.inner_stride, b += X::kColumns) {
    Vector row[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) row[v] = *reinterpret_cast<const Vector*>(b + v * X::kLanes);
#pragma GCC unroll 12
    for (int i = 0; i < kHeight; ++i)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[i][v] += a[i * row_stride] * row[v];
  }
  store_tile<kHeight, kVectors, X>(sum, c, out);
}

// One of three heights, and of two widths: of tiles at the edges, little is computed in vain.
template <typename X, typename T>
[[gnu::always_inline]] inline void choose_tile(const T* a, LayoutOfA layout, const T* b, int64_t inner, T* c,
                                               const TileOfC& out) {
  constexpr int kThird = X::kRows / 3;
  const bool narrow = out.width <= X::kLanes;
  if (out.height > 2 * kThird)
    narrow ? sum_tile<3 * kThird, 1, X>(a, layout, b, inner, c, out)
           : sum_tile<3 * kThird, 2, X>(a, layout, b, inner, c, out);
  else if (out.height > kThird)
    narrow ? sum_tile<2 * kThird, 1, X>(a, layout, b, inner, c, out)
           : sum_tile<2 * kThird, 2, X>(a, layout, b, inner, c, out);
  else
    narrow ? sum_tile<kThird, 1, X>(a, layout, b, inner, c, out) : sum_tile<kThird, 2, X>(a, layout, b, inner, c, out);
}

// The compiler knows one of the strides.
template <typename X, typename T>
[[gnu::always_inline]] inline void choose_layout(const T* a, LayoutOfA layout, const T* b, int64_t inner, T* c,
                                                 const TileOfC& out) {
  layout.inner_stride == 1 ? choose_tile<X>(a, {layout.row_stride, 1}, b, inner, c, out)
                           : choose_tile<X>(a, {1, X::kRows}, b, inner, c, out);
}

template <typename T>
void multiply_tile(const T* a, LayoutOfA layout, const T* b, int64_t inner, T* c, const TileOfC& out, Tile<T, 32>) {
  choose_layout<Tile<T, 32>>(a, layout, b, inner, c, out);
}

// For processors with AVX-512.
template <typename T>
[[gnu::target("avx512f,avx512dq")]] void multiply_tile(const T* a, LayoutOfA layout, const T* b, int64_t inner, T* c,
                                                       const TileOfC& out, Tile<T, 64>) {
  choose_layout<Tile<T, 64>>(a, layout, b, inner, c, out);
}

// Lines (rows of a, or columns of b) in panels of kWidth: of each panel, the elements k of all its lines for every k.
// The last one is filled up with zeros.
template <int64_t kWidth, typename T>
void pack(const T* from, int64_t line_stride, int64_t inner_stride, int64_t lines, int64_t inner, T* out) {
  for (int64_t first = 0; first < lines; first += kWidth, from += kWidth * line_stride) {
    const int64_t width = std::min(kWidth, lines - first);
    for (int64_t k = 0; k < inner; ++k, out += kWidth) {
      const T* p = from + k * inner_stride;
      if (width == kWidth && line_stride == 1) {
        std::memcpy(out, p, kWidth * sizeof(T));
      } else if (width == kWidth) {
#pragma GCC unroll 32
        for (int64_t j = 0; j < kWidth; ++j) out[j] = p[j * line_stride];
      } else {
        for (int64_t j = 0; j < width; ++j) out[j] = p[j * line_stride];
        std::fill(out + width, out + kWidth, T(0));
      }
    }
  }
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

// A product that is under way, in tiles of type X. For each block of b, which is packed once, threads take blocks of
// the result and pack the rows of a that these need.
template <typename X, typename T>
class Packed {
 public:
  Packed(int64_t rows, int64_t columns, int64_t inner, const MatrixLayout& a_layout, const T* a, T* c)
      : rows_(rows), columns_(columns), inner_(inner), a_layout_(a_layout), a_(a), c_(c) {
    in_place_ = a_layout.column_stride == 1 && columns <= kFewColumns &&
                a_layout.row_stride * static_cast<int64_t>(sizeof(T)) % kCacheWay != 0;
  }

  void multiply(const MatrixLayout& b_layout, const T* b, bool parallel) {
    const int64_t most_columns = std::min(kColumnBlock, (columns_ + kWidth - 1) / kWidth * kWidth);
    T* const packed_b = Buffer<T, 1>::reserve(most_columns * std::min(kInnerBlock, inner_));
    for (int64_t j0 = 0; j0 < columns_; j0 += kColumnBlock)
      for (int64_t k0 = 0; k0 < inner_; k0 += kInnerBlock) {
        const Block block{j0, std::min(kColumnBlock, columns_ - j0), k0, std::min(kInnerBlock, inner_ - k0), packed_b};
        const T* from = b + k0 * b_layout.row_stride + j0 * b_layout.column_stride;
        const int64_t panels = (block.width + kWidth - 1) / kWidth;
        parallel_for(panels, parallel ? std::max<int64_t>(1, 65536 / (kWidth * block.depth)) : panels,
                     [&](int64_t begin, int64_t end) {
                       pack<kWidth>(from + begin * kWidth * b_layout.column_stride, b_layout.column_stride,
                                    b_layout.row_stride, std::min(block.width, end * kWidth) - begin * kWidth,
                                    block.depth, packed_b + begin * kWidth * block.depth);
                     });
        multiply_block(block, parallel);
      }
  }

 private:
  static constexpr int64_t kWidth = X::kColumns, kRows = X::kRows;
  // Rows [k, k + depth) and columns [j, j + width) of b.
  struct Block {
    int64_t j, width, k, depth;
    const T* packed;
  };

  void multiply_block(const Block& block, bool parallel) const {
    const int64_t down = (rows_ + kRowBlock - 1) / kRowBlock, threads = parallel ? intra_op_threads() : 1;
    const int64_t panels = (block.width + kWidth - 1) / kWidth;
    // As wide as possible with enough of them for all threads.
    const int64_t across = down >= 3 * threads || threads == 1 ? 1 : std::min(panels, 3 * threads / down + 1);
    const double work = static_cast<double>(rows_) * block.width * block.depth;
    parallel_for(down * across, parallel && work > 65536 ? 1 : down * across, [&](int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t i = unit / across * kRowBlock, part = unit % across;
        multiply_rows(block, i, std::min(kRowBlock, rows_ - i), panels * part / across * kWidth,
                      std::min(block.width, panels * (part + 1) / across * kWidth));
      }
    });
  }

  // Rows [i0, i0 + height) of the result, and columns [first, last) of the block.
  void multiply_rows(const Block& block, int64_t i0, int64_t height, int64_t first, int64_t last) const {
    // Whole tiles of rows; the last ones, if too few for a tile, are always packed.
    const int64_t unpacked = in_place_ ? height / kRows * kRows : 0, depth = block.depth;
    const T* const from = a_ + i0 * a_layout_.row_stride + block.k * a_layout_.column_stride;
    T* const packed_a = Buffer<T, 0>::reserve((kRowBlock + kRows) * depth);
    pack<kRows>(from + unpacked * a_layout_.row_stride, a_layout_.row_stride, a_layout_.column_stride,
                height - unpacked, depth, packed_a);
    for (int64_t j = first; j < last; j += kWidth)
      for (int64_t i = 0; i < height; i += kRows) {
        const TileOfC out{columns_, std::min(kRows, height - i), std::min(kWidth, last - j), block.k > 0};
        const T* const panel = block.packed + j * depth;
        T* const to = c_ + (i0 + i) * columns_ + block.j + j;
        if (i < unpacked)
          multiply_tile(from + i * a_layout_.row_stride, {a_layout_.row_stride, 1}, panel, depth, to, out, X{});
        else
          multiply_tile(packed_a + (i - unpacked) * depth, {1, kRows}, panel, depth, to, out, X{});
      }
  }

  const int64_t rows_, columns_, inner_;
  const MatrixLayout a_layout_;
  const T* const a_;
  T* const c_;
  bool in_place_;
};

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

// Whether the processor has AVX-512.
bool has_wide_tiles() {
  static const bool answer = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
  return answer;
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
  if constexpr (has_packed_product<T>) {
    if (!direct && inner > 0) {
      if (has_wide_tiles())
        Packed<Tile<T, 64>, T>(rows, columns, inner, a_layout, a, c).multiply(b_layout, b, parallel);
      else
        Packed<Tile<T, 32>, T>(rows, columns, inner, a_layout, a, c).multiply(b_layout, b, parallel);
      return;
    }
  }
  auto stripe = [&](int64_t begin, int64_t end) {
    multiply_directly(end - begin, columns, inner, a_layout, a + begin * a_layout.row_stride, b_layout, b,
                      c + begin * columns);
  };
  const double work_per_row = static_cast<double>(columns) * static_cast<double>(inner);
  const int64_t grain = static_cast<int64_t>(std::clamp(65536.0 / work_per_row, 6.0, 1e9));
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
