// The loops that all reductions share: any subset of axes, vectorized, parallel, and the same sum on any thread count.
//
// Adjacent dimensions that are both kept or both reduced are merged first; the innermost of the merged dimensions is
// either a run that is reduced (rows of a matrix) or a run that is kept (columns). Work is cut by sizes alone, never by
// the number of threads, so that results do not depend on the machine.
//
// Only the loops over elements are templates (ReductionLoops); the code that cuts the work is compiled once, in
// reduction.cc.
//
// A reducer R over elements T has two accumulator types: `Block`, in which some hundred elements are combined at full
// vector speed, and `Total`, wider where T is a narrow float, which combines the blocks. It offers
//   load(T) -> Block, combine(Block, Block) on scalars and on GCC vectors, merge(Total, Total),
//   block_identity, total_identity, and finish(Total, count, variant) -> T.
// The variant is the kernel's: it lets two ops that differ only in their last step share the loops. A reducer that is
// `modular` gives the same bits for signed integers as for unsigned ones before `finish`, and shares their loops.
#pragma once

#include <functional>
#include <vector>

#include "kernel/registry.h"
#include "kernel/shaped_kernel.h"
#include "tensor/reduced_floats.h"
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

// 32 bytes of accumulators.
template <typename B>
struct VectorOf {
  static constexpr int kLanes = 32 / sizeof(B);
  typedef B type __attribute__((vector_size(32)));
};

// Eight narrow floats, and the same widened.
typedef uint16_t Narrow __attribute__((vector_size(16)));
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
    Wide wide;
    widen_row(p, reinterpret_cast<float*>(&wide), VectorOf<B>::kLanes);
    return wide;
  } else {
    static_assert(sizeof(T) == sizeof(B));
    typename VectorOf<B>::type out;
    std::memcpy(&out, p, sizeof(out));
    return out;
  }
}

// Lane i combined with lane i + kWidth, for half as many lanes each time, until all are in the first one.
template <typename R, int kWidth, typename V, size_t... lane>
[[gnu::always_inline]] inline V fold_halves(V v, std::index_sequence<lane...> lanes) {
  if constexpr (kWidth == 0)
    return v;
  else
    return fold_halves<R, kWidth / 2>(
        R::combine(v, __builtin_shufflevector(v, v, ((lane + kWidth) % sizeof...(lane))...)), lanes);
}
template <typename R, typename B>
[[gnu::always_inline]] inline B fold_lanes(typename VectorOf<B>::type all) {
  constexpr int kHalf = VectorOf<B>::kLanes / 2;
  typedef B Half __attribute__((vector_size(16)));
  Half halves[2];
  std::memcpy(halves, &all, sizeof(all));
  const Half folded = R::combine(halves[0], halves[1]);
  return fold_halves<R, kHalf / 2>(folded, std::make_index_sequence<kHalf>{})[0];
}

constexpr int64_t kReductionBlock = 1024;  // Elements that one Block accumulates at most.
constexpr int64_t kReductionChunk = 64 * 1024;

// Whether R offers reduce_quickly(elements, n, block) for n elements, a multiple of four vectors: false if it has come
// upon one that takes the general loop, else the same bits.
template <typename R, typename T>
constexpr bool has_quick_run =
    requires(const T* p, typename R::Block block) { R::reduce_quickly(p, int64_t{}, block); };

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
      if constexpr (has_quick_run<R, T>) {
        Block quick;
        if (R::reduce_quickly(p + i, end - i, quick)) {
          total = R::merge(total, static_cast<typename R::Total>(quick));
          i = end;
          continue;
        }
      }
      Vector identity = Vector{} + R::block_identity();
      Vector a = identity, b = identity, c = identity, d = identity;
      for (; i < end; i += kStep) {
        a = R::combine(a, R::map(load_lanes<T, Block>(p + i)));
        b = R::combine(b, R::map(load_lanes<T, Block>(p + i + kLanes)));
        c = R::combine(c, R::map(load_lanes<T, Block>(p + i + 2 * kLanes)));
        d = R::combine(d, R::map(load_lanes<T, Block>(p + i + 3 * kLanes)));
      }
      a = R::combine(R::combine(a, b), R::combine(c, d));
      total = R::merge(total, static_cast<typename R::Total>(fold_lanes<R, Block>(a)));
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

// blocks[j] = combined with row[j] of each of kRows rows, at full vector speed where the type allows it. Meanwhile the
// elements that follow in `ahead` of these are fetched.
template <typename R, typename T, int kRows>
inline void combine_rows(const T* const* rows, int64_t width, int64_t ahead, typename R::Block* blocks) {
  using Block = typename R::Block;
  int64_t j = 0;
  if constexpr (std::is_arithmetic_v<Block>) {
    using Vector = typename VectorOf<Block>::type;
    constexpr int kLanes = VectorOf<Block>::kLanes;
    for (; j + kLanes <= width; j += kLanes) {
      Vector sum;
      std::memcpy(&sum, blocks + j, sizeof(sum));
      for (int r = 0; r < kRows; ++r) {
        sum = R::combine(sum, R::map(load_lanes<T, Block>(rows[r] + j)));
        __builtin_prefetch(reinterpret_cast<const char*>(rows[r] + j) + ahead);
      }
      std::memcpy(blocks + j, &sum, sizeof(sum));
    }
  }
  for (; j < width; ++j)
    for (int r = 0; r < kRows; ++r) blocks[j] = R::combine(blocks[j], R::map(static_cast<Block>(rows[r][j])));
}

constexpr int64_t kReductionRows = 64;  // Rows that one Block of a column accumulates.

// The part of a reduction that depends on the types, as functions of erased totals.
struct ReductionLoops {
  size_t width, total_width;  // Bytes of an element, and of a total.
  void (*set_identity)(void* totals, int64_t n);
  // totals[i] = merged with others[i].
  void (*merge)(void* totals, const void* others, int64_t n);
  // *total = merged with n contiguous elements.
  void (*add_run)(const void* elements, int64_t n, void* total);
  // totals[j] = merged with column j of up to kReductionRows rows, which start at these offsets (in elements).
  void (*add_rows)(const void* base, const int64_t* offsets, int64_t rows, int64_t width, void* totals);
  void (*finish)(const void* totals, int64_t n, int64_t count, int variant, void* out);
  // out[r] = row r of a matrix without gaps, reduced and finished: the bits of add_run and finish.
  void (*reduce_rows)(const void* elements, int64_t rows, int64_t length, int variant, void* out);
};

template <typename R, typename T>
struct LoopsOf {
  using Total = typename R::Total;
  static void set_identity(void* totals, int64_t n) {
    std::fill_n(static_cast<Total*>(totals), n, R::total_identity());
  }
  static void merge(void* totals, const void* others, int64_t n) {
    Total* to = static_cast<Total*>(totals);
    for (int64_t i = 0; i < n; ++i) to[i] = R::merge(to[i], static_cast<const Total*>(others)[i]);
  }
  static void add_run(const void* elements, int64_t n, void* total) {
    Total& to = *static_cast<Total*>(total);
    to = R::merge(to, reduce_run<R>(static_cast<const T*>(elements), n));
  }
  static void add_rows(const void* base, const int64_t* offsets, int64_t rows, int64_t width, void* totals) {
    const T* from = static_cast<const T*>(base);
    Total* to = static_cast<Total*>(totals);
    typename R::Block blocks[kReductionTile];
    std::fill(blocks, blocks + width, R::block_identity());
    int64_t r = 0;
    // The rows that come next, or what follows in these.
    const int64_t ahead = rows > 8 ? (offsets[8] - offsets[0]) * static_cast<int64_t>(sizeof(T)) : 2048;
    for (; r + 4 <= rows; r += 4) {
      const T* const four[] = {from + offsets[r], from + offsets[r + 1], from + offsets[r + 2], from + offsets[r + 3]};
      combine_rows<R, T, 4>(four, width, ahead, blocks);
    }
    for (; r < rows; ++r) {
      const T* const one[] = {from + offsets[r]};
      combine_rows<R, T, 1>(one, width, ahead, blocks);
    }
    for (int64_t j = 0; j < width; ++j) to[j] = R::merge(to[j], static_cast<Total>(blocks[j]));
  }
};

template <typename R, typename T>
void finish_totals(const void* totals, int64_t n, int64_t count, int variant, void* out) {
  const auto* from = static_cast<const typename R::Total*>(totals);
  for (int64_t i = 0; i < n; ++i) static_cast<T*>(out)[i] = R::finish(from[i], count, variant);
}

// blocks[r] = the elements of row r, one after the other. A length that the compiler knows (not 0) makes vectors of it.
template <typename R, int kLength, typename T>
void combine_short_rows(const T* p, int64_t rows, int64_t length, typename R::Block* blocks) {
  using Block = typename R::Block;
  const int64_t n = kLength > 0 ? kLength : length;
  for (int64_t r = 0; r < rows; ++r) {
    Block block = R::block_identity();
    for (int64_t k = 0; k < n; ++k) block = R::combine(block, R::map(static_cast<Block>(p[r * n + k])));
    blocks[r] = block;
  }
}

// The same with a row in each lane of a vector, for what the compiler makes branches of.
template <typename R, typename T>
void combine_rows_in_lanes(const T* p, int64_t rows, int64_t length, typename R::Block* blocks) {
  using Block = typename R::Block;
  using Vector = typename VectorOf<Block>::type;
  constexpr int kLanes = VectorOf<Block>::kLanes;
  int64_t r = 0;
  for (; r + kLanes <= rows; r += kLanes) {
    Vector total = Vector{} + R::block_identity();
    for (int64_t k = 0; k < length; ++k) {
      Block lanes[kLanes];
#pragma GCC unroll 16
      for (int l = 0; l < kLanes; ++l) lanes[l] = static_cast<Block>(p[(r + l) * length + k]);
      Vector elements;
      std::memcpy(&elements, lanes, sizeof elements);
      total = R::combine(total, R::map(elements));
    }
    std::memcpy(blocks + r, &total, sizeof total);
  }
  combine_short_rows<R, 0>(p + r * length, rows - r, length, blocks + r);
}

// ReductionLoops::reduce_rows by the loops of R over L; F finishes.
template <typename R, typename L, typename F, typename T>
void reduce_rows_of(const void* elements, int64_t rows, int64_t length, int variant, void* out) {
  using Block = typename R::Block;
  using Total = typename R::Total;
  const L* from = static_cast<const L*>(elements);
  T* to = static_cast<T*>(out);
  // Rows that reduce_run takes one element after the other.
  constexpr int64_t kLongest = sizeof(Block) >= 4 || std::is_same_v<L, bool> ? 32 * 4 / sizeof(Block) : 1;
  constexpr int64_t kTogether = 64;
  if constexpr (std::is_arithmetic_v<Block> && kLongest > 1) {
    Block blocks[kTogether];
    using W = std::conditional_t<is_reduced_float<L>, float, L>;
    W wide[is_reduced_float<L> ? kTogether * kLongest : 1];
    for (int64_t r = 0; r < rows && length < kLongest; r += kTogether) {
      const int64_t n = std::min(kTogether, rows - r);
      const W* p = widened_row(from + r * length, wide, n * length);
      constexpr bool in_lanes = requires { R::kRowsInLanes; };
      if constexpr (in_lanes)
        combine_rows_in_lanes<R>(p, n, length, blocks);
      else
        length == 2   ? combine_short_rows<R, 2>(p, n, length, blocks)
        : length == 3 ? combine_short_rows<R, 3>(p, n, length, blocks)
        : length == 4 ? combine_short_rows<R, 4>(p, n, length, blocks)
                      : combine_short_rows<R, 0>(p, n, length, blocks);
      for (int64_t i = 0; i < n; ++i)
        to[r + i] = F::finish(R::merge(R::total_identity(), static_cast<Total>(blocks[i])), length, variant);
    }
    if (length < kLongest) return;
  }
  for (int64_t r = 0; r < rows; ++r)
    to[r] = F::finish(R::merge(R::total_identity(), reduce_run<R>(from + r * length, length)), length, variant);
}

// The type whose loops the elements use.
template <typename R, typename T>
struct LoopType {
  using type = T;
};
template <typename R, typename T>
  requires(R::modular && std::is_integral_v<T> && std::is_signed_v<T>)
struct LoopType<R, T> {
  using type = std::make_unsigned_t<T>;
};

template <template <typename> class Reducer, typename T>
constexpr ReductionLoops reduction_loops() {
  using L = typename LoopType<Reducer<T>, T>::type;
  using Loops = LoopsOf<Reducer<L>, L>;
  using Total = typename Reducer<L>::Total;
  static_assert(std::is_same_v<Total, typename Reducer<T>::Total>);
  return {
      sizeof(T),       sizeof(Total),    &Loops::set_identity,          &Loops::merge,
      &Loops::add_run, &Loops::add_rows, &finish_totals<Reducer<T>, T>, &reduce_rows_of<Reducer<L>, L, Reducer<T>, T>};
}

// Output 0 = input 0 reduced over the axes in input 1.
void compute_reduction(Context& ctx, const ReductionLayout& layout, const ReductionLoops& loops, int variant);
// The same for elements in memory, of which there is at least one.
void reduce_elements(const void* in, const ReductionLayout& layout, const ReductionLoops& loops, int variant,
                     void* out);

// Writes the elements [first, first + count) of a tensor of float32 that is reduced while it is computed.
using ProduceRow = std::function<void(int64_t first, int64_t count, float* to)>;
// Reduces each of the rows of a matrix, whose elements `produce` computes, on several threads at once: the same bits as
// for a matrix in memory.
void reduce_produced_rows(const ProduceRow& produce, int64_t rows, int64_t columns, const ReductionLoops& loops,
                          int variant, Tensor& out);

// What a kernel that computes the input of a reduction needs to know of it.
struct ReductionKernel : Kernel, ShapedKernel {
  explicit ReductionKernel(const Construction& c) : keep_dims(c.attr<bool>("keep_dims", false)) {}
  virtual ReductionLoops float_loops() const = 0;
  virtual int variant_of_finish() const = 0;
  bool keep_dims;
};

// The kernel of Reducer<T> for the element types of the list.
template <template <typename> class Reducer, typename TypeList, int variant = 0>
struct Reduction : ReductionKernel {
  using ReductionKernel::ReductionKernel;
  ReductionLoops float_loops() const override {
    ReductionLoops loops;
    dispatch(DType::float32, TypeList{}, [&]<typename T>() { loops = reduction_loops<Reducer, T>(); });
    return loops;
  }
  int variant_of_finish() const override { return variant; }

  void compute(Context& ctx) override {
    const Tensor& input = ctx.input(0);
    ReductionLayout layout(input.shape(), ctx.input(1), keep_dims);
    if (layout.trivial && Reducer<float>::kIdentityOnOne) {
      ctx.set_output(0, input.reshaped(layout.shape));
      return;
    }
    ReductionLoops loops;
    dispatch(input.dtype(), TypeList{}, [&]<typename T>() { loops = reduction_loops<Reducer, T>(); });
    compute_reduction(ctx, layout, loops, variant);
  }
  std::optional<ShapedWork> for_shapes(std::span<const ShapedOperand> x) const override {
    if (x.size() != 2 || !x[1].constant.defined() || x[0].shape.num_elements() == 0) return std::nullopt;
    const ReductionLayout layout(x[0].shape, x[1].constant, keep_dims);
    if (layout.trivial && Reducer<float>::kIdentityOnOne) return std::nullopt;
    ReductionLoops loops;
    dispatch(x[0].dtype, TypeList{}, [&]<typename T>() { loops = reduction_loops<Reducer, T>(); });
    return ShapedWork{layout.shape,
                      [=](const void* const* from, void* to) { reduce_elements(from[0], layout, loops, variant, to); }};
  }
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
