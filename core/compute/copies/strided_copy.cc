// The strided copy: normalizing the loop nest, then rows or blocks.
#include "compute/copies/strided_copy.h"

#include "compute/copies/elements.h"

namespace thalweg {
namespace {

// Side of the square blocks in which a transposed pair of dimensions is walked: whole cache lines on both sides.
template <typename T>
constexpr int64_t kBlock = sizeof(T) <= 2   ? 64
                           : sizeof(T) <= 4 ? 32
                           : sizeof(T) <= 8 ? 16
                                            : 8;

// Drops dimensions of one element, sorts by destination stride (largest first) and merges neighbours.
std::vector<CopyDim> normalized(std::span<const CopyDim> dims) {
  std::vector<CopyDim> sorted;
  for (const CopyDim& d : dims)
    if (d.size != 1) sorted.push_back(d);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const CopyDim& a, const CopyDim& b) { return std::abs(a.to) > std::abs(b.to); });
  std::vector<CopyDim> merged;
  for (const CopyDim& d : sorted) {
    if (!merged.empty()) {
      CopyDim& outer = merged.back();
      if (outer.from == d.from * d.size && outer.to == d.to * d.size) {
        outer = {outer.size * d.size, d.from, d.to};
        continue;
      }
    }
    merged.push_back(d);
  }
  if (merged.empty()) merged.push_back({1, 1, 1});
  return merged;
}

template <typename T>
void copy_row(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t n) {
  if (from_stride == 1 && to_stride == 1) {
    if constexpr (std::is_trivially_copyable_v<T>) {
      // A call of memcpy costs more than copying a handful of elements.
      if (n * sizeof(T) > 64) {
        std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
        return;
      }
    }
    for (int64_t i = 0; i < n; ++i) to[i] = from[i];
  } else if (from_stride == 0 && to_stride == 1) {
    const T value = *from;
    for (int64_t i = 0; i < n; ++i) to[i] = value;
  } else if (from_stride == -1 && to_stride == 1) {
    for (int64_t i = 0; i < n; ++i) to[i] = *(from - i);
  } else if (to_stride == 1) {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * from_stride];
  } else {
    for (int64_t i = 0; i < n; ++i) to[i * to_stride] = from[i * from_stride];
  }
}

// A position in the outer dimensions, kept as offsets into both sides and stepped like an odometer.
class Odometer {
 public:
  Odometer(std::span<const CopyDim> dims, int64_t start) : dims_(dims), index_(dims.size()) {
    for (int d = static_cast<int>(dims.size()) - 1; d >= 0; --d) {
      index_[d] = start % dims[d].size;
      start /= dims[d].size;
      from += index_[d] * dims[d].from;
      to += index_[d] * dims[d].to;
    }
  }
  void step() {
    for (int d = static_cast<int>(dims_.size()) - 1; d >= 0; --d) {
      from += dims_[d].from;
      to += dims_[d].to;
      if (++index_[d] < dims_[d].size) return;
      from -= dims_[d].size * dims_[d].from;
      to -= dims_[d].size * dims_[d].to;
      index_[d] = 0;
    }
  }
  int64_t from = 0, to = 0;

 private:
  std::span<const CopyDim> dims_;
  std::vector<int64_t> index_;
};

template <typename T>
void copy_rows(const T* from, T* to, std::span<const CopyDim> dims, int64_t total, int64_t grain) {
  const CopyDim inner = dims.back();
  std::span<const CopyDim> outer = dims.first(dims.size() - 1);
  parallel_for(total, grain, [&](int64_t begin, int64_t end) {
    Odometer at(outer, begin / inner.size);
    int64_t first = begin % inner.size;
    while (begin < end) {
      int64_t n = std::min(inner.size - first, end - begin);
      copy_row(from + at.from + first * inner.from, inner.from, to + at.to + first * inner.to, inner.to, n);
      begin += n;
      first = 0;
      at.step();
    }
  });
}

// Runs of a few elements, such as the channels of a pixel, along a second dimension; the compiler knows their length.
template <int n, typename T>
void copy_short_runs(const T* from, T* to, std::span<const CopyDim> outer, CopyDim along, int64_t runs, int64_t grain) {
  parallel_for(runs, std::max<int64_t>(1, grain / n), [&](int64_t begin, int64_t end) {
    Odometer at(outer, begin / along.size);
    int64_t first = begin % along.size;
    while (begin < end) {
      int64_t count = std::min(along.size - first, end - begin);
      const T* source = from + at.from + first * along.from;
      T* destination = to + at.to + first * along.to;
      for (int64_t i = 0; i < count; ++i)
        std::memcpy(destination + i * along.to, source + i * along.from, n * sizeof(T));
      begin += count;
      first = 0;
      at.step();
    }
  });
}

// A few rows far apart, whose elements get side by side, such as the planes of an image; the compiler knows their
// number.
template <int n, typename T>
void interleave(const T* from, T* to, std::span<const CopyDim> outer, CopyDim along, int64_t distance, int64_t total,
                int64_t grain) {
  parallel_for(total / n, std::max<int64_t>(1, grain / n), [&](int64_t begin, int64_t end) {
    Odometer at(outer, begin / along.size);
    int64_t first = begin % along.size;
    while (begin < end) {
      const int64_t count = std::min(along.size - first, end - begin);
      const T* source = from + at.from + first;
      T* destination = to + at.to + first * n;
      for (int64_t i = 0; i < count; ++i)
        for (int k = 0; k < n; ++k) destination[i * n + k] = source[i + k * distance];
      begin += count;
      first = 0;
      at.step();
    }
  });
}

// Transposes a block by way of a small buffer, so that both sides are read and written in whole runs: rows of a large
// matrix that lie a power of two apart share the same few places of the cache, and would push each other out of it.
template <typename T>
void transpose_block(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t rows, int64_t columns) {
  constexpr int64_t block = kBlock<T>;
  T buffer[block][block];
  for (int64_t c = 0; c < columns; ++c) {
    const T* source = from + c * from_stride;
    for (int64_t r = 0; r < rows; ++r) buffer[r][c] = source[r];
  }
  for (int64_t r = 0; r < rows; ++r) std::copy_n(buffer[r], columns, to + r * to_stride);
}

// Squares of elements in vectors of 16 bytes.
template <typename T>
struct Square {
  static constexpr int kSide = 16 / sizeof(T);
  typedef T Row __attribute__((vector_size(16)));

  // The first and the second halves of two rows, their elements in turn.
  template <size_t... j>
  static Row first_halves(Row a, Row b, std::index_sequence<j...>) {
    return __builtin_shufflevector(a, b, (j % 2 == 0 ? j / 2 : kSide + j / 2)...);
  }
  template <size_t... j>
  static Row second_halves(Row a, Row b, std::index_sequence<j...>) {
    return __builtin_shufflevector(a, b, (j % 2 == 0 ? kSide / 2 + j / 2 : kSide + kSide / 2 + j / 2)...);
  }
  // Each round doubles the number of rows whose elements lie in turn.
  [[gnu::always_inline]] static void transpose(const T* from, int64_t from_stride, T* to, int64_t to_stride) {
    constexpr std::make_index_sequence<kSide> all{};
    Row rows[kSide], next[kSide];
    for (int i = 0; i < kSide; ++i) std::memcpy(&rows[i], from + i * from_stride, sizeof(Row));
    for (int done = 1; done < kSide; done *= 2) {
      for (int i = 0; i < kSide / 2; ++i) {
        next[2 * i] = first_halves(rows[i], rows[i + kSide / 2], all);
        next[2 * i + 1] = second_halves(rows[i], rows[i + kSide / 2], all);
      }
      std::copy_n(next, kSide, rows);
    }
    for (int i = 0; i < kSide; ++i) std::memcpy(to + i * to_stride, &rows[i], sizeof(Row));
  }
};

// Whether elements are transposed in vectors.
template <typename T>
constexpr bool kHasSquares = std::is_unsigned_v<T>;

// The same as `transpose_block` for whole blocks.
template <typename T>
void transpose_whole_block(const T* from, int64_t from_stride, T* to, int64_t to_stride) {
  constexpr int64_t block = kBlock<T>, side = Square<T>::kSide;
  alignas(64) T buffer[block][block];
  for (int64_t c = 0; c < block; c += side)
    for (int64_t r = 0; r < block; r += side)
      Square<T>::transpose(from + c * from_stride + r, from_stride, &buffer[r][c], block);
  for (int64_t r = 0; r < block; ++r) std::memcpy(to + r * to_stride, buffer[r], sizeof(buffer[r]));
}

// Asks for the memory of a whole block ahead of time: its rows lie too far apart for the processor to foresee.
template <typename T>
void prefetch_block(const T* from, int64_t stride) {
  constexpr int64_t block = kBlock<T>, line = 64 / sizeof(T);
  for (int64_t c = 0; c < block; ++c)
    for (int64_t r = 0; r < block; r += line) __builtin_prefetch(from + c * stride + r);
}

// `across` has a source stride of 1, `along` a destination stride of 1.
template <typename T>
void copy_blocks(const T* from, T* to, std::span<const CopyDim> outer, CopyDim across, CopyDim along, int64_t total,
                 int64_t grain) {
  constexpr int64_t block = kBlock<T>;
  int64_t rows = (across.size + block - 1) / block, columns = (along.size + block - 1) / block;
  int64_t boxes = total / (across.size * along.size);
  parallel_for(boxes * rows, std::max<int64_t>(1, grain / (block * along.size)), [&](int64_t begin, int64_t end) {
    Odometer at(outer, begin / rows);
    int64_t row = begin % rows;
    for (int64_t unit = begin; unit < end; ++unit) {
      int64_t r0 = row * block, r1 = std::min(across.size, r0 + block);
      for (int64_t column = 0; column < columns; ++column) {
        int64_t c0 = column * block, c1 = std::min(along.size, c0 + block);
        const T* source = from + at.from + r0 + c0 * along.from;
        T* destination = to + at.to + r0 * across.to + c0;
        if constexpr (kHasSquares<T>) {
          if (r1 - r0 == block && c1 - c0 == block) {
            if (along.size - c1 >= block) prefetch_block(source + block * along.from, along.from);
            transpose_whole_block(source, along.from, destination, across.to);
            continue;
          }
        }
        transpose_block(source, along.from, destination, across.to, r1 - r0, c1 - c0);
      }
      if (++row == rows) {
        row = 0;
        at.step();
      }
    }
  });
}

template <typename T>
void copy_box(const T* from, T* to, std::vector<CopyDim> dims, int64_t grain) {
  int64_t total = 1;
  for (const CopyDim& d : dims) total *= d.size;
  // Copying a string allocates, which may throw: not inside of a parallel region.
  if constexpr (!std::is_trivially_copyable_v<T>) grain = total;
  const CopyDim inner = dims.back();
  if constexpr (std::is_trivially_copyable_v<T>) {
    auto unit = dims.end() - 1;
    if (inner.to == 1 && std::abs(inner.from) > 1 && inner.size >= 4)
      unit = std::find_if(dims.begin(), unit, [](const CopyDim& d) { return d.from == 1 && d.size >= 4; });
    if (unit != dims.end() - 1) {
      CopyDim across = *unit;
      dims.erase(unit);
      dims.pop_back();
      return copy_blocks(from, to, std::span<const CopyDim>(dims), across, inner, total, grain);
    }
  }
  if constexpr (std::is_trivially_copyable_v<T>) {
    if (dims.size() >= 2 && inner.to == 1 && inner.size <= 4 && inner.from != 1) {
      const CopyDim along = dims[dims.size() - 2];
      const auto outer = std::span<const CopyDim>(dims).first(dims.size() - 2);
      if (along.from == 1 && along.to == inner.size) {
        if (inner.size == 2) return interleave<2>(from, to, outer, along, inner.from, total, grain);
        if (inner.size == 3) return interleave<3>(from, to, outer, along, inner.from, total, grain);
        return interleave<4>(from, to, outer, along, inner.from, total, grain);
      }
    }
    if (dims.size() >= 2 && inner.from == 1 && inner.to == 1 && inner.size <= 4) {
      auto outer = std::span<const CopyDim>(dims).first(dims.size() - 2);
      const CopyDim along = dims[dims.size() - 2];
      if (inner.size == 2) return copy_short_runs<2>(from, to, outer, along, total / 2, grain);
      if (inner.size == 3) return copy_short_runs<3>(from, to, outer, along, total / 3, grain);
      return copy_short_runs<4>(from, to, outer, along, total / 4, grain);
    }
  }
  copy_rows(from, to, std::span<const CopyDim>(dims), total, grain);
}

}  // namespace

void strided_copy(DType dtype, const void* from, void* to, std::span<const CopyDim> dims) {
  for (const CopyDim& d : dims)
    if (d.size == 0) return;
  std::vector<CopyDim> order = normalized(dims);
  dispatch_width(dtype, [&]<typename T>() {
    copy_box(static_cast<const T*>(from), static_cast<T*>(to), std::move(order), move_grain(dtype));
  });
}

std::vector<int64_t> strides_of(const Shape& shape) {
  std::vector<int64_t> strides(shape.rank());
  int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

}  // namespace thalweg
