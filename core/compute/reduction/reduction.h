// The loops that all reductions share: any subset of axes, vectorized, parallel, and the same sum on any thread count.
//
// Adjacent dimensions that are both kept or both reduced are merged first; what remains ends either in a run that is
// reduced (rows of a matrix) or in a run that is kept (columns). Work is cut by sizes alone, never by the number of
// threads, so that results do not depend on the machine.
//
// A reducer R over elements T has two accumulator types: `Block`, in which some hundred elements are combined at full
// vector speed, and `Total`, wider where T is a narrow float, which combines the blocks. It offers
//   load(T) -> Block, combine(Block, Block) on scalars and on GCC vectors, merge(Total, Total),
//   block_identity, total_identity, and finish(Total, count, variant) -> T.
// The variant is the kernel's: it lets two ops that differ only in their last step share the loops.
#pragma once

#include <vector>

#include "kernel/registry.h"
#include "thread/parallel.h"

namespace thalweg {

// Which dimensions remain after merging, as (size, stride in elements).
struct ReductionLayout {
  struct Dim {
    int64_t size, stride;
  };
  std::vector<Dim> kept, reduced;  // Without the innermost run.
  int64_t inner = 1;
  bool inner_reduced = false;
  int64_t num_kept = 1, num_reduced = 1;  // Products of the sizes above.
  int64_t count = 1;                      // Elements that go into one result.
  bool trivial = false;                   // Every result is one element of the input, in order.
  Shape shape;                            // Of the result.

  // Throws for an axis that does not exist or is given twice.
  ReductionLayout(const Shape& input, const Tensor& axes, bool keep_dims);
};

inline int64_t offset_of(const std::vector<ReductionLayout::Dim>& dims, int64_t index) {
  if (dims.size() == 1) return index * dims[0].stride;
  int64_t offset = 0;
  for (size_t d = dims.size(); d-- > 0;) {
    offset += index % dims[d].size * dims[d].stride;
    index /= dims[d].size;
  }
  return offset;
}

// 32 bytes of accumulators.
template <typename B>
struct VectorOf {
  static constexpr int kLanes = 32 / sizeof(B);
  typedef B type __attribute__((vector_size(32)));
};

// Eight narrow floats, and the same widened.
typedef uint16_t Narrow __attribute__((vector_size(16)));
typedef _Float16 Halves __attribute__((vector_size(16)));
typedef uint32_t WideBits __attribute__((vector_size(32)));
typedef float Wide __attribute__((vector_size(32)));

// The next lanes of an array, as accumulators: narrow floats widen on the way.
template <typename T, typename B>
inline typename VectorOf<B>::type load_lanes(const T* p) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    Narrow narrow;
    std::memcpy(&narrow, p, sizeof(narrow));
    return reinterpret_cast<Wide>(__builtin_convertvector(narrow, WideBits) << 16);
  } else if constexpr (std::is_same_v<T, half>) {
    Halves narrow;
    std::memcpy(&narrow, p, sizeof(narrow));
    return __builtin_convertvector(narrow, Wide);
  } else {
    static_assert(sizeof(T) == sizeof(B));
    typename VectorOf<B>::type out;
    std::memcpy(&out, p, sizeof(out));
    return out;
  }
}

constexpr int64_t kReductionBlock = 1024;  // Elements that one Block accumulates at most.
constexpr int64_t kReductionChunk = 64 * 1024;

// Reduces n contiguous elements.
template <typename R, typename T>
typename R::Total reduce_run(const T* p, int64_t n) {
  using Block = typename R::Block;
  typename R::Total total = R::total_identity();
  int64_t i = 0;
  if constexpr (std::is_arithmetic_v<Block>) {
    using Vector = typename VectorOf<Block>::type;
    constexpr int kLanes = VectorOf<Block>::kLanes;
    constexpr int kStep = 4 * kLanes;
    while (n - i >= kStep) {
      const int64_t end = i + std::min(kReductionBlock, n - i) / kStep * kStep;
      Vector identity = Vector{} + R::block_identity();
      Vector a = identity, b = identity, c = identity, d = identity;
      for (; i < end; i += kStep) {
        a = R::combine(a, R::map(load_lanes<T, Block>(p + i)));
        b = R::combine(b, R::map(load_lanes<T, Block>(p + i + kLanes)));
        c = R::combine(c, R::map(load_lanes<T, Block>(p + i + 2 * kLanes)));
        d = R::combine(d, R::map(load_lanes<T, Block>(p + i + 3 * kLanes)));
      }
      a = R::combine(R::combine(a, b), R::combine(c, d));
      Block lanes[kLanes];
      std::memcpy(lanes, &a, sizeof(lanes));
      for (int width = kLanes / 2; width > 0; width /= 2)
        for (int l = 0; l < width; ++l) lanes[l] = R::combine(lanes[l], lanes[l + width]);
      total = R::merge(total, static_cast<typename R::Total>(lanes[0]));
    }
  }
  while (i < n) {
    Block block = R::block_identity();
    for (const int64_t end = std::min(n, i + 64); i < end; ++i)
      block = R::combine(block, R::map(static_cast<Block>(p[i])));
    total = R::merge(total, static_cast<typename R::Total>(block));
  }
  return total;
}

constexpr int64_t kReductionTile = 512;  // Columns that are reduced together.

// blocks[j] = combined with row[j] of each of kRows rows, at full vector speed where the type allows it.
template <typename R, typename T, int kRows>
inline void combine_rows(const T* const* rows, int64_t width, typename R::Block* blocks) {
  using Block = typename R::Block;
  int64_t j = 0;
  if constexpr (std::is_arithmetic_v<Block>) {
    using Vector = typename VectorOf<Block>::type;
    constexpr int kLanes = VectorOf<Block>::kLanes;
    for (; j + kLanes <= width; j += kLanes) {
      Vector sum;
      std::memcpy(&sum, blocks + j, sizeof(sum));
      for (int r = 0; r < kRows; ++r) sum = R::combine(sum, R::map(load_lanes<T, Block>(rows[r] + j)));
      std::memcpy(blocks + j, &sum, sizeof(sum));
    }
  }
  for (; j < width; ++j)
    for (int r = 0; r < kRows; ++r) blocks[j] = R::combine(blocks[j], R::map(static_cast<Block>(rows[r][j])));
}

// Combines `rows` rows of `width` <= kReductionTile columns into `totals`; row r starts at row_start(r).
template <typename R, typename T, typename RowStart>
void reduce_columns(const RowStart& row_start, int64_t rows, int64_t width, typename R::Total* totals) {
  typename R::Block blocks[kReductionTile];
  for (int64_t first = 0; first < rows; first += 64) {
    const int64_t end = std::min(rows, first + 64);
    std::fill(blocks, blocks + width, R::block_identity());
    int64_t r = first;
    for (; r + 4 <= end; r += 4) {
      const T* const four[] = {row_start(r), row_start(r + 1), row_start(r + 2), row_start(r + 3)};
      combine_rows<R, T, 4>(four, width, blocks);
    }
    for (; r < end; ++r) {
      const T* const one[] = {row_start(r)};
      combine_rows<R, T, 1>(one, width, blocks);
    }
    for (int64_t j = 0; j < width; ++j) totals[j] = R::merge(totals[j], static_cast<typename R::Total>(blocks[j]));
  }
}

// The innermost run is reduced: each result combines whole runs.
template <typename R, typename T>
void reduce_rows(const T* in, const ReductionLayout& layout, int variant, T* out) {
  using Total = typename R::Total;
  const int64_t runs = layout.num_reduced, length = layout.inner;
  auto part = [&](int64_t k, int64_t run_begin, int64_t run_end, int64_t begin, int64_t end) {
    const T* base = in + offset_of(layout.kept, k);
    Total total = R::total_identity();
    for (int64_t r = run_begin; r < run_end; ++r)
      total = R::merge(total, reduce_run<R>(base + offset_of(layout.reduced, r) + begin, end - begin));
    return total;
  };
  const int64_t per = runs * length;
  if (layout.num_kept >= 8 || per <= kReductionChunk) {
    parallel_for(layout.num_kept, std::max<int64_t>(1, kReductionChunk / 2 / std::max<int64_t>(1, per)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t k = begin; k < end; ++k) out[k] = R::finish(part(k, 0, runs, 0, length), per, variant);
                 });
    return;
  }
  // Few results: several parts of each, combined in order.
  const bool by_run = runs > 1;
  const int64_t splittable = by_run ? runs : length;
  const int64_t parts = std::min(splittable, std::clamp<int64_t>(per / kReductionChunk, 1, 256));
  std::vector<Total> totals(layout.num_kept * parts);
  parallel_for(layout.num_kept * parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t k = i / parts, c = i % parts;
      int64_t from = splittable * c / parts, to = splittable * (c + 1) / parts;
      totals[i] = by_run ? part(k, from, to, 0, length) : part(k, 0, 1, from, to);
    }
  });
  for (int64_t k = 0; k < layout.num_kept; ++k) {
    Total total = R::total_identity();
    for (int64_t c = 0; c < parts; ++c) total = R::merge(total, totals[k * parts + c]);
    out[k] = R::finish(total, per, variant);
  }
}

// The innermost run is kept: rows are combined element by element.
template <typename R, typename T>
void reduce_to_columns(const T* in, const ReductionLayout& layout, int variant, T* out) {
  using Total = typename R::Total;
  const int64_t rows = layout.num_reduced, columns = layout.inner;
  const int64_t tiles = (columns + kReductionTile - 1) / kReductionTile;
  // Narrow matrices: so many rows side by side fill the vectors.
  const bool packed = layout.reduced.size() == 1 && layout.reduced[0].stride == columns && columns <= 32;
  const int64_t side = packed ? 64 / columns : 1;
  auto part = [&](int64_t k, int64_t begin, int64_t end, int64_t first, int64_t width, Total* totals) {
    const T* base = in + offset_of(layout.kept, k) + first;
    std::fill(totals, totals + width, R::total_identity());
    if (side > 1 && end - begin >= 2 * side) {
      Total wide[64];
      const int64_t groups = (end - begin) / side;
      std::fill(wide, wide + side * columns, R::total_identity());
      reduce_columns<R, T>([&](int64_t r) { return base + (begin + r * side) * columns; }, groups, side * columns,
                           wide);
      for (int64_t s = 0; s < side; ++s)
        for (int64_t j = 0; j < columns; ++j) totals[j] = R::merge(totals[j], wide[s * columns + j]);
      begin += groups * side;
    }
    reduce_columns<R, T>([&](int64_t r) { return base + offset_of(layout.reduced, begin + r); }, end - begin, width,
                         totals);
  };
  const int64_t units = layout.num_kept * tiles;
  const int64_t parts = units >= 8 ? 1 : std::min(rows, std::clamp<int64_t>(rows * columns / kReductionChunk, 1, 32));
  if (parts <= 1) {
    const int64_t per_unit = std::max<int64_t>(1, rows * std::min(columns, kReductionTile));
    parallel_for(units, std::max<int64_t>(1, kReductionChunk / 2 / per_unit), [&](int64_t begin, int64_t end) {
      Total totals[kReductionTile];
      for (int64_t u = begin; u < end; ++u) {
        int64_t k = u / tiles, first = u % tiles * kReductionTile, width = std::min(kReductionTile, columns - first);
        part(k, 0, rows, first, width, totals);
        for (int64_t j = 0; j < width; ++j) out[k * columns + first + j] = R::finish(totals[j], rows, variant);
      }
    });
    return;
  }
  std::vector<Total> partial(layout.num_kept * parts * columns);
  parallel_for(units * parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t k = i / (tiles * parts), c = i / tiles % parts, first = i % tiles * kReductionTile;
      part(k, rows * c / parts, rows * (c + 1) / parts, first, std::min(kReductionTile, columns - first),
           &partial[(k * parts + c) * columns + first]);
    }
  });
  for (int64_t k = 0; k < layout.num_kept; ++k)
    for (int64_t j = 0; j < columns; ++j) {
      Total total = R::total_identity();
      for (int64_t c = 0; c < parts; ++c) total = R::merge(total, partial[(k * parts + c) * columns + j]);
      out[k * columns + j] = R::finish(total, rows, variant);
    }
}

// The kernel of Reducer<T> for the element types of the list.
template <template <typename> class Reducer, typename TypeList, int variant = 0>
struct Reduction : Kernel {
  explicit Reduction(const Construction& c) : keep_dims(c.attr<bool>("keep_dims", false)) {}

  void compute(Context& ctx) override {
    const Tensor& input = ctx.input(0);
    ReductionLayout layout(input.shape(), ctx.input(1), keep_dims);
    dispatch(input.dtype(), TypeList{}, [&]<typename T>() {
      using R = Reducer<T>;
      if (layout.trivial && R::kIdentityOnOne) {
        ctx.set_output(0, input.reshaped(layout.shape));
        return;
      }
      Tensor& out = ctx.allocate(0, layout.shape);
      if (out.num_elements() == 0) return;
      if (input.num_elements() == 0) {
        T value = R::finish(R::total_identity(), 0, variant);
        std::fill_n(out.template flat<T>(), out.num_elements(), value);
      } else if (layout.inner_reduced) {
        reduce_rows<R>(input.template flat<T>(), layout, variant, out.template flat<T>());
      } else {
        reduce_to_columns<R>(input.template flat<T>(), layout, variant, out.template flat<T>());
      }
    });
  }

  bool keep_dims;
};

// The accumulators of sums and products: float while it is short, double in the end; integers wrap around.
template <typename T>
struct Accumulators {
  using Block = T;
  using Total = T;
};
template <>
struct Accumulators<float> {
  using Block = float;
  using Total = double;
};
template <>
struct Accumulators<half> : Accumulators<float> {};
template <>
struct Accumulators<bfloat16> : Accumulators<float> {};
template <>
struct Accumulators<complex64> {
  using Block = complex64;
  using Total = complex128;
};
// Signed overflow is undefined in C++; the same bits come out of unsigned arithmetic.
template <>
struct Accumulators<int32_t> {
  using Block = uint32_t;
  using Total = uint32_t;
};
template <>
struct Accumulators<int64_t> {
  using Block = uint64_t;
  using Total = uint64_t;
};
template <>
struct Accumulators<int16_t> {
  using Block = uint16_t;
  using Total = uint16_t;
};
template <>
struct Accumulators<int8_t> {
  using Block = uint8_t;
  using Total = uint8_t;
};

}  // namespace thalweg
