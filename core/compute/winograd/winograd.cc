// Tiles, their transforms, and the products between.
#include "compute/winograd/winograd.h"

#include <algorithm>
#include <memory>

#include "compute/products/sgemm.h"
#include "compute/winograd/transforms.h"
#include "thread/parallel.h"

namespace thalweg::winograd {
namespace {

constexpr int64_t kFloatsInCache = 3 << 19;  // the limit for the tiles of one thread
constexpr int64_t kFloatsShared = 6 << 20;   // the limit for the tiles of all threads
constexpr int64_t kSmallFilter = 160 * 160;  // channels in times out: the transformed filter stays in the cache

int64_t ceil_div(int64_t n, int64_t d) { return (n + d - 1) / d; }

// From the allocator that all tensors come from: it keeps the memory for the next step, where the system would hand out
// fresh pages each time.
Tensor allocate(int64_t floats) { return Tensor(DType::float32, Shape{floats}); }

// The points of a set of tiles: point k of tile t, channel c, at data[k * stride + t * channels + c].
struct Points {
  float* data;
  int64_t channels, stride;
  // A cache line more than a power of two may be: else the 36 points of a tile would compete for one place.
  static int64_t stride_for(int64_t tiles, int64_t channels) { return tiles * channels + 16; }
};

// An image batch as the tiles see it.
struct Image {
  int64_t rows, columns, channels;
};

// Where tile `index` is: its image, and its first output.
struct Tile {
  int64_t image, row, column;
};
struct Grid {
  int64_t down, across, tiles;
  explicit Grid(const Problem& p)
      : down(ceil_div(p.out_rows, kOut)), across(ceil_div(p.out_columns, kOut)), tiles(p.batch * down * across) {}
  Tile tile(int64_t index) const {
    const int64_t in_image = index % (down * across);
    return {index / (down * across), in_image / across * kOut, in_image % across * kOut};
  }
};

// Loads a square of kSize by kSize from `image` at (row, column), eight channels each; zeros outside of it.
template <int kSize>
inline void load_square(const float* image, const Image& size, int64_t row, int64_t column, Vector* to) {
  const int64_t row_stride = size.columns * size.channels;
  if (row >= 0 && column >= 0 && row + kSize <= size.rows && column + kSize <= size.columns) {
    const float* from = image + row * row_stride + column * size.channels;
    for (int i = 0; i < kSize; ++i, from += row_stride)
      for (int j = 0; j < kSize; ++j) to[i * kSize + j] = _mm256_loadu_ps(from + j * size.channels);
    return;
  }
  for (int i = 0; i < kSize; ++i)
    for (int j = 0; j < kSize; ++j) {
      const int64_t r = row + i, c = column + j;
      const bool inside = r >= 0 && r < size.rows && c >= 0 && c < size.columns;
      to[i * kSize + j] = inside ? _mm256_loadu_ps(image + r * row_stride + c * size.channels) : _mm256_setzero_ps();
    }
}

// Transforms tiles [first, first + count) of kSize by kSize at (shift_row, shift_column) from the tile's first output.
template <int kSize, void (*kColumn)(const Vector*, int, Vector*, int)>
void transform_tiles(const Grid& grid, const float* data, const Image& size, int64_t shift_row, int64_t shift_column,
                     int64_t first, int64_t begin, int64_t end, const Points& to) {
  for (int64_t t = begin; t < end; ++t) {
    const Tile tile = grid.tile(first + t);
    const float* image = data + tile.image * size.rows * size.columns * size.channels;
    for (int64_t c = 0; c < size.channels; c += 8) {
      Vector square[kSize * kSize], points[kPoints];
      load_square<kSize>(image + c, size, tile.row + shift_row, tile.column + shift_column, square);
      transform<kSize, kIn, kColumn>(square, points);
      float* at = to.data + t * to.channels + c;
      for (int k = 0; k < kPoints; ++k) _mm256_storeu_ps(at + k * to.stride, points[k]);
    }
  }
}

void transform_back(const Grid& grid, const Points& from, const Image& size, int64_t first, int64_t begin, int64_t end,
                    float* out, const Epilogue& epilogue) {
  for (int64_t t = begin; t < end; ++t) {
    const Tile tile = grid.tile(first + t);
    float* image = out + tile.image * size.rows * size.columns * size.channels;
    const int rows = static_cast<int>(std::min<int64_t>(kOut, size.rows - tile.row));
    const int columns = static_cast<int>(std::min<int64_t>(kOut, size.columns - tile.column));
    for (int64_t c = 0; c < size.channels; c += 8) {
      Vector points[kPoints], square[kOut * kOut];
      const float* at = from.data + t * from.channels + c;
      for (int k = 0; k < kPoints; ++k) points[k] = _mm256_loadu_ps(at + k * from.stride);
      transform<kIn, kOut, output_column>(points, square);
      if (epilogue.bias) {
        const Vector bias = _mm256_loadu_ps(epilogue.bias + c);
        for (Vector& v : square) v = plus(v, bias);
      }
      if (epilogue.relu)
        for (Vector& v : square) v = _mm256_max_ps(_mm256_setzero_ps(), v);  // NaN stays NaN.
      for (int i = 0; i < rows; ++i)
        for (int j = 0; j < columns; ++j)
          _mm256_storeu_ps(image + ((tile.row + i) * size.columns + tile.column + j) * size.channels + c,
                           square[i * kOut + j]);
    }
  }
}

// The convolution itself, with the filter's points given.
void convolve(const Problem& p, const float* in, const Filter& filter, float* out, const Epilogue& epilogue) {
  const Grid grid(p);
  const Image from{p.in_rows, p.in_columns, p.in_channels}, to{p.out_rows, p.out_columns, p.out_channels};
  const int64_t channels = p.in_channels + p.out_channels;
  auto load = [&](int64_t first, int64_t begin, int64_t end, const Points& points) {
    transform_tiles<kIn, input_column>(grid, in, from, -p.pad_top, -p.pad_left, first, begin, end, points);
  };
  auto multiply = [&](int64_t k, int64_t tiles, const Points& x, const Points& y) {
    products::multiply_packed(tiles, p.out_channels, p.in_channels, x.data + k * x.stride, p.in_channels,
                              filter.point(static_cast<int>(k)), y.data + k * y.stride, p.out_channels, false);
  };
  if (p.in_channels * p.out_channels <= kSmallFilter) {
    // Each thread carries its tiles through all three phases, within its own cache.
    int64_t tiles = std::clamp<int64_t>(kFloatsInCache / 6 / (kPoints * channels), 1, 16) * products::kTileRows;
    const int64_t blocks = ceil_div(grid.tiles, tiles);
    parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
      const int64_t x_stride = Points::stride_for(tiles, p.in_channels),
                    y_stride = Points::stride_for(tiles, p.out_channels);
      Tensor memory = allocate(kPoints * (x_stride + y_stride));
      const Points x{memory.flat<float>(), p.in_channels, x_stride},
          y{memory.flat<float>() + kPoints * x_stride, p.out_channels, y_stride};
      for (int64_t block = begin; block < end; ++block) {
        const int64_t first = block * tiles, count = std::min(tiles, grid.tiles - first);
        load(first, 0, count, x);
        for (int64_t k = 0; k < kPoints; ++k) multiply(k, count, x, y);
        transform_back(grid, y, to, first, 0, count, out, epilogue);
      }
    });
    return;
  }
  // A large filter is read once for many tiles: the threads share them, and divide the points among themselves.
  const int64_t tiles = std::min(grid.tiles, std::max<int64_t>(64, kFloatsShared / (kPoints * channels)));
  const int64_t x_stride = Points::stride_for(tiles, p.in_channels),
                y_stride = Points::stride_for(tiles, p.out_channels);
  Tensor memory = allocate(kPoints * (x_stride + y_stride));
  const Points x{memory.flat<float>(), p.in_channels, x_stride},
      y{memory.flat<float>() + kPoints * x_stride, p.out_channels, y_stride};
  for (int64_t first = 0; first < grid.tiles; first += tiles) {
    const int64_t count = std::min(tiles, grid.tiles - first);
    parallel_for(count, 4, [&](int64_t begin, int64_t end) { load(first, begin, end, x); });
    parallel_for(kPoints, 1, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) multiply(k, count, x, y);
    });
    parallel_for(count, 4,
                 [&](int64_t begin, int64_t end) { transform_back(grid, y, to, first, begin, end, out, epilogue); });
  }
}

Problem adjoint_of(const Problem& p) {
  return {p.batch,      p.out_rows,    p.out_columns, p.out_channels, p.in_rows,
          p.in_columns, p.in_channels, 2 - p.pad_top, 2 - p.pad_left};
}

}  // namespace

bool is_faster(const Problem& p) {
  if (p.in_channels % 8 || p.out_channels % 8 || p.in_channels < 16 || p.out_channels < 16) return false;
  if (p.pad_top < 0 || p.pad_left < 0 || p.pad_top > 2 || p.pad_left > 2) return false;
  if (p.out_rows < 3 || p.out_columns < 3) return false;
  // Times in units of one multiplication: the products, and the traffic of transformed tiles and filters.
  const double pairs = static_cast<double>(p.in_channels) * p.out_channels;
  const double tiles = static_cast<double>(Grid(p).tiles);
  const double direct = 9.0 * p.batch * p.out_rows * p.out_columns * pairs;
  const double products = kPoints * tiles * pairs;
  const double traffic = kPoints * (tiles * (p.in_channels + p.out_channels) * 6.0 + pairs * 24.0);
  return products + traffic < 0.9 * direct;
}

// Filters lie [3, 3, in, out]. `adjoint`: the filter of the gradient, turned around, from out to in channels.
Filter::Filter(const Problem& p, const float* filter, bool adjoint) {
  using products::kTileColumns;
  const int64_t inner = adjoint ? p.out_channels : p.in_channels, columns = adjoint ? p.in_channels : p.out_channels;
  const int64_t tap = p.in_channels * p.out_channels;
  // A cache line more, as for the points of tiles.
  stride_ = ceil_div(products::packed_b_size(columns, inner), 16) * 16 + 16;
  data_ = allocate(kPoints * stride_);
  float* data = data_.flat<float>();
  parallel_for(ceil_div(columns, kTileColumns), std::max<int64_t>(1, 512 / inner), [&](int64_t begin, int64_t end) {
    for (int64_t column = begin * kTileColumns; column < std::min(columns, end * kTileColumns);
         column += kTileColumns) {
      const int64_t width = std::min<int64_t>(kTileColumns, columns - column);  // 8 or 16
      for (int64_t first = 0; first < inner; first += 8) {
        alignas(32) float taps[9][8][kTileColumns] = {};  // for eight rows of the product's right-hand side
        for (int t = 0; t < 9; ++t)
          for (int64_t half = 0; half < width; half += 8) {
            if (adjoint) {
              const float* from = filter + (8 - t) * tap + (column + half) * inner + first;
              products::detail::transpose_8x8(from, inner, &taps[t][0][half], kTileColumns);
            } else {
              for (int i = 0; i < 8; ++i)
                _mm256_store_ps(&taps[t][i][half],
                                _mm256_loadu_ps(filter + t * tap + (first + i) * columns + column + half));
            }
          }
        for (int i = 0; i < 8; ++i) {
          float* to = data + products::packed_b_index(columns, inner, first + i, column);
          for (int64_t half = 0; half < kTileColumns; half += 8) {
            Vector nine[9], points[kPoints];
            for (int t = 0; t < 9; ++t) nine[t] = _mm256_load_ps(&taps[t][i][half]);
            transform<3, kIn, filter_column>(nine, points);
            for (int k = 0; k < kPoints; ++k) _mm256_storeu_ps(to + k * stride_ + half, points[k]);
          }
        }
      }
    }
  });
}

Filter::Filter(const Problem& p, const float* filter) : Filter(p, filter, false) {}

void forward(const Problem& p, const float* in, const Filter& filter, float* out, const Epilogue& epilogue) {
  convolve(p, in, filter, out, epilogue);
}

void backward_input(const Problem& p, const float* filter, const float* grad_out, float* grad_in) {
  convolve(adjoint_of(p), grad_out, Filter(p, filter, true), grad_in, {});
}

void backward_filter(const Problem& p, const float* in, const float* grad_out, float* grad_filter) {
  const Grid grid(p);
  const Image from{p.in_rows, p.in_columns, p.in_channels}, to{p.out_rows, p.out_columns, p.out_channels};
  const int64_t pairs = p.in_channels * p.out_channels;
  const int64_t tiles =
      std::min(grid.tiles, std::max<int64_t>(64, kFloatsShared / (kPoints * (p.in_channels + p.out_channels))));
  const int64_t x_stride = Points::stride_for(tiles, p.in_channels),
                y_stride = Points::stride_for(tiles, p.out_channels);
  Tensor memory = allocate(kPoints * (x_stride + y_stride)), sums = allocate(kPoints * pairs);
  const Points x{memory.flat<float>(), p.in_channels, x_stride},
      y{memory.flat<float>() + kPoints * x_stride, p.out_channels, y_stride};
  for (int64_t first = 0; first < grid.tiles; first += tiles) {
    const int64_t count = std::min(tiles, grid.tiles - first);
    parallel_for(count, 4, [&](int64_t begin, int64_t end) {
      transform_tiles<kIn, input_column>(grid, in, from, -p.pad_top, -p.pad_left, first, begin, end, x);
      transform_tiles<kOut, output_column_adjoint>(grid, grad_out, to, 0, 0, first, begin, end, y);
    });
    parallel_for(kPoints, 1, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k)
        products::sgemm({p.in_channels,
                         p.out_channels,
                         count,
                         {x.data + k * x.stride, 1, p.in_channels},
                         {y.data + k * y.stride, p.out_channels, 1},
                         sums.flat<float>() + k * pairs,
                         p.out_channels,
                         first > 0},
                        false);
    });
  }
  parallel_for(pairs / 8, 256, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * 8; i < end * 8; i += 8) {
      Vector points[kPoints], taps[9];
      for (int k = 0; k < kPoints; ++k) points[k] = _mm256_loadu_ps(sums.flat<float>() + k * pairs + i);
      transform<kIn, 3, filter_column_adjoint>(points, taps);
      for (int t = 0; t < 9; ++t) _mm256_storeu_ps(grad_filter + t * pairs + i, taps[t]);
    }
  });
}

}  // namespace thalweg::winograd
