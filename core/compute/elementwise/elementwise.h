// The loops that all element-wise kernels share: unary, binary with broadcasting, in place where the executor allows
// it.
//
// Only the loop over a row is a template, one for each functor and type; it is called through a pointer. Shapes, types,
// broadcasting, threads, and the conversion of float16 and bfloat16 are compiled once, in elementwise.cc.
//
// A functor has `static R apply(T)` or `apply(T, T)` as a template over the compute type: float16 and bfloat16 are
// computed in float and rounded once. The result has the type of the operands unless `apply` returns another one
// (comparisons: bool; the magnitude of a complex number). The innermost loops are plain and contiguous, so that the
// compiler vectorizes them. A functor may also declare:
//
//   static constexpr bool modular     integers of one width give the same bits, signed or not: compile half as many
//   static bool is_near(T), T far(T)  apply(T) holds where the former is true; the latter elsewhere
//   static void row(a, stride_a, b, stride_b, out, n)   the whole loop, for float
//   template <T> static void check(a, b)   throws for operands that are refused as a whole (division by zero)
#pragma once

#include <array>
#include <cmath>
#include <concepts>

#include "code/recorded.h"
#include "kernel/registry.h"
#include "thread/parallel.h"

namespace thalweg {

template <typename T>
using Compute = std::conditional_t<is_reduced_float<T>, float, T>;

// So many elements are worth a thread of their own.
constexpr int64_t kElementGrain = 32 * 1024;

// How the elements of two operands map to those of the result, with dimensions merged as far as possible.
class Broadcast {
 public:
  // Throws if the shapes do not fit.
  Broadcast(const Shape& a, const Shape& b);
  // Whether the shapes fit.
  static bool possible(const Shape& a, const Shape& b);
  const Shape& shape() const { return shape_; }
  // A view of the merged dimensions: sizes, and each operand's stride in elements (0 along a broadcast dimension).
  int rank() const { return static_cast<int>(sizes_.size()); }
  int64_t size(int i) const { return sizes_[i]; }
  int64_t stride_a(int i) const { return strides_a_[i]; }
  int64_t stride_b(int i) const { return strides_b_[i]; }

 private:
  Shape shape_;
  std::vector<int64_t> sizes_, strides_a_, strides_b_;
};

// Calls row(out_offset, a_offset, b_offset, count) for each run along the innermost merged dimension.
void for_each_row(const Broadcast& broadcast, const std::function<void(int64_t, int64_t, int64_t, int64_t)>& row);

// The unsigned type of the same width, for loops that do not depend on the sign; quantized types count as integers.
inline DType unsigned_of(DType dtype) {
  switch (dtype) {
    case DType::int8:
    case DType::qint8:
    case DType::quint8:
      return DType::uint8;
    case DType::int16:
    case DType::qint16:
    case DType::quint16:
      return DType::uint16;
    case DType::int32:
    case DType::qint32:
      return DType::uint32;
    case DType::int64:
      return DType::uint64;
    default:
      return dtype;
  }
}

// A list without the types that `unsigned_of` replaces.
template <typename List>
struct Modular;
template <DType... Ds>
struct Modular<Types<Ds...>> {
  template <typename Done, DType... Rest>
  struct Keep {
    using type = Done;
  };
  template <DType... Done, DType D, DType... Rest>
  struct Keep<Types<Done...>, D, Rest...> {
    static constexpr bool replaced = D == DType::int8 || D == DType::int16 || D == DType::int32 || D == DType::int64 ||
                                     D == DType::qint8 || D == DType::quint8 || D == DType::qint16 ||
                                     D == DType::quint16 || D == DType::qint32;
    using type = typename Keep<std::conditional_t<replaced, Types<Done...>, Types<Done..., D>>, Rest...>::type;
  };
  using type = typename Keep<Types<>, Ds...>::type;
};

// dispatch() for a functor: over fewer types if it is modular, in which case the list must hold the unsigned ones.
template <typename F, typename TypeList, typename Body>
inline void dispatch_for(DType dtype, const Body& body) {
  if constexpr (requires { F::modular; }) {
    dispatch(unsigned_of(dtype), typename Modular<TypeList>::type{}, body);
  } else {
    dispatch(dtype, TypeList{}, body);
  }
}

// The element type of a result, from the functor's return type.
template <typename T, typename Returned>
using ResultOf = std::conditional_t<std::is_same_v<Returned, Compute<T>>, T, Returned>;

// out[i] = F(in[i]) for one row. T is a type that is computed in as it is.
template <typename F, typename T, typename R>
[[gnu::hot]] void unary_row(const void* from, void* to, int64_t n) {
  const T* in = static_cast<const T*>(from);
  R* out = static_cast<R*>(to);
  if constexpr (requires { F::far(T()); }) {
    // Block by block: one argument beyond the limits makes only its own block slow.
    for (int64_t begin = 0; begin < n; begin += 1024) {
      int64_t end = std::min(n, begin + 1024);
      bool all_near = true;
      for (int64_t i = begin; i < end; ++i) all_near &= F::is_near(in[i]);
      if (all_near) {
#pragma GCC ivdep
        for (int64_t i = begin; i < end; ++i) out[i] = F::apply(in[i]);
      } else {
        for (int64_t i = begin; i < end; ++i) out[i] = F::is_near(in[i]) ? F::apply(in[i]) : F::far(in[i]);
      }
    }
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = F::apply(in[i]);
  }
}

// Types that have separate loops for a scalar operand; others read the scalar from a row of copies.
template <typename T>
inline constexpr bool has_scalar_loops = std::is_same_v<T, float> || !std::is_trivially_copyable_v<T>;

template <typename F, typename T, typename R>
[[gnu::noinline]] void equal_rows(const T* a, const T* b, R* out, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = F::apply(a[i], b[i]);
}

// out[i] = F(a[i], b[i]) for one row: contiguous operands; a stride of 0 is a scalar. Both strides are 0 only where n
// is 1. `out` may be one of the operands.
template <typename F, typename T, typename R>
[[gnu::hot]] void binary_row(const void* from_a, int64_t stride_a, const void* from_b, int64_t stride_b, void* to,
                             int64_t n) {
  const T* a = static_cast<const T*>(from_a);
  const T* b = static_cast<const T*>(from_b);
  R* out = static_cast<R*>(to);
  if constexpr (std::is_same_v<T, float> && requires { F::row(a, stride_a, b, stride_b, out, n); }) {
    if (n > 0) F::row(a, stride_a, b, stride_b, out, n);
  } else if (n == 1) {
    *out = F::apply(*a, *b);
  } else if (stride_a == stride_b) {
    equal_rows<F, T, R>(a, b, out, n);
  } else if constexpr (has_scalar_loops<T>) {
    if (stride_a == 0) {
      const T x = *a;
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) out[i] = F::apply(x, b[i]);
    } else {
      const T y = *b;
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) out[i] = F::apply(a[i], y);
    }
  } else {
    constexpr int64_t kCopies = 2048 / sizeof(T);
    T copies[kCopies];
    std::fill_n(copies, std::min(n, kCopies), stride_a == 0 ? *a : *b);
    for (int64_t i = 0; i < n; i += kCopies)
      equal_rows<F, T, R>(stride_a == 0 ? copies : a + i, stride_b == 0 ? copies : b + i, out + i,
                          std::min(kCopies, n - i));
  }
}

template <typename TypeList>
inline constexpr bool has_float32 = false;
template <DType... Ds>
inline constexpr bool has_float32<Types<Ds...>> = ((Ds == DType::float32) || ...);

// The loops of functors over rows of float32; none where the functor has no such loop, or refuses some operands.
template <typename F, typename TypeList>
Rows unary_rows_of() {
  if constexpr (has_float32<TypeList> && requires(float x) {
                  { F::apply(x) } -> std::same_as<float>;
                })
    return {.unary = &unary_row<F, float, float>};
  return {};
}
template <typename F, typename TypeList>
Rows binary_rows_of() {
  if constexpr (
      has_float32<TypeList> && !requires(const Tensor& t) { F::template check<float>(t, t); } &&
      requires(float x) {
        { F::apply(x, x) } -> std::same_as<float>;
      })
    return {.binary = &binary_row<F, float, float>};
  return {};
}

// The loop of a functor over rows of an element type. float16 and bfloat16 are converted to float and back.
struct RowTypes {
  DType reduced = DType::invalid;   // float16 or bfloat16, if the operands are that
  size_t width = 0, out_width = 0;  // bytes of an operand's and a result's element
  bool narrows = false;             // the result is converted back
};
struct UnaryLoop {
  UnaryRow row = nullptr;
  RowTypes types;
  void operator()(const void* in, void* out, int64_t n) const;
};
struct BinaryLoop {
  BinaryRow row = nullptr;
  RowTypes types;
  void operator()(const void* a, int64_t stride_a, const void* b, int64_t stride_b, void* out, int64_t n) const;
};

template <typename T, typename R>
inline constexpr RowTypes kRowTypes = {std::is_same_v<T, half>       ? DType::float16
                                       : std::is_same_v<T, bfloat16> ? DType::bfloat16
                                                                     : DType::invalid,
                                       sizeof(T), sizeof(ResultOf<T, R>),
                                       is_reduced_float<T> && std::is_same_v<R, Compute<T>>};
template <typename F, typename TypeList>
UnaryLoop unary_loop(DType dtype) {
  UnaryLoop loop;
  dispatch_for<F, TypeList>(dtype, [&]<typename T>() {
    using R = decltype(F::apply(std::declval<Compute<T>>()));
    loop = {&unary_row<F, Compute<T>, R>, kRowTypes<T, R>};
  });
  return loop;
}
template <typename F, typename TypeList>
BinaryLoop binary_loop(DType dtype) {
  BinaryLoop loop;
  dispatch_for<F, TypeList>(dtype, [&]<typename T>() {
    using R = decltype(F::apply(std::declval<Compute<T>>(), std::declval<Compute<T>>()));
    loop = {&binary_row<F, Compute<T>, R>, kRowTypes<T, R>};
  });
  return loop;
}

// The rows of a loop whose results have the type of the operands, which are computed in as they are.
inline bool keeps_type(const RowTypes& types) {
  return types.reduced == DType::invalid && types.width == types.out_width;
}

// Elementwise::record of a functor, applied to one operand or two; there is none if the second one is missing.
template <typename F, typename T, size_t... operand>
int record_as(const int* operands, std::index_sequence<operand...>) {
  return F::apply(code::Recorded<T>::of(operands[operand])...).value;
}
template <typename F, size_t count>
int record_functor(code::Recording& recording, code::Lane lane, const int* operands) {
  if constexpr (requires { F::recorded; }) {
    if constexpr (count == 2)
      if (operands[0] == code::kNone || operands[1] == code::kNone) return code::kNone;
    using namespace code::recorded_types;
    const code::RecordingScope scope(recording);
    constexpr auto all = std::make_index_sequence<count>();
    if constexpr ((F::recorded & kFloat32) != 0)
      if (lane == code::Lane::float32) return record_as<F, float>(operands, all);
    if constexpr ((F::recorded & kFloat64) != 0)
      if (lane == code::Lane::float64) return record_as<F, double>(operands, all);
    if constexpr ((F::recorded & kInts) != 0) {
      if (lane == code::Lane::int32) return record_as<F, int32_t>(operands, all);
      if (lane == code::Lane::int64) return record_as<F, int64_t>(operands, all);
    }
    if constexpr ((F::recorded & kTruth) != 0)
      if (lane == code::Lane::truth) return record_as<F, bool>(operands, all);
  }
  return code::kNone;
}

// Output 0 = the loop over input 0, in place where that is allowed.
void compute_unary(Context& ctx, const UnaryLoop& loop);
// Output 0 = the loop over inputs i and j, broadcast, in place where that is allowed.
void compute_binary(Context& ctx, int i, int j, const BinaryLoop& loop);
// Throws unless both operands have the same element type.
void require_same_types(const Tensor& a, const Tensor& b);

// output = F(input), for the element types of the list.
template <typename F, typename TypeList>
struct Unary : Kernel {
  explicit Unary(const Construction&) {}
  static Rows rows() { return unary_rows_of<F, TypeList>(); }
  static Rows rows_of(DType dtype) {
    const UnaryLoop loop = unary_loop<F, TypeList>(dtype);
    return keeps_type(loop.types) ? Rows{.unary = loop.row} : Rows{};
  }
  static constexpr auto record = &record_functor<F, 1>;
  void compute(Context& ctx) override { compute_unary(ctx, unary_loop<F, TypeList>(ctx.input(0).dtype())); }
};

// The same for an F that only changes bits: BitsF does it for float16 and bfloat16 without their way through float.
template <typename F, typename BitsF, typename TypeList>
struct BitwiseUnary : Unary<F, TypeList> {
  using Unary<F, TypeList>::Unary;
  void compute(Context& ctx) override {
    const DType dtype = ctx.input(0).dtype();
    if (dtype != DType::float16 && dtype != DType::bfloat16) return Unary<F, TypeList>::compute(ctx);
    compute_unary(ctx, {&unary_row<BitsF, uint16_t, uint16_t>, {.width = 2, .out_width = 2}});
  }
};

// Output 0 = F(input i, input j), broadcast.
template <typename F, typename TypeList>
void compute_binary(Context& ctx, int i, int j) {
  const Tensor& a = ctx.input(i);
  const Tensor& b = ctx.input(j);
  require_same_types(a, b);
  if constexpr (requires { F::template check<int32_t>(a, b); })
    dispatch(a.dtype(), TypeList{}, [&]<typename T>() { F::template check<T>(a, b); });
  compute_binary(ctx, i, j, binary_loop<F, TypeList>(a.dtype()));
}

// output = F(a, b), broadcast.
template <typename F, typename TypeList>
struct Binary : Kernel {
  explicit Binary(const Construction&) {}
  static Rows rows() { return binary_rows_of<F, TypeList>(); }
  static Rows rows_of(DType dtype) {
    constexpr bool is_checked = requires(const Tensor& t) { F::template check<int32_t>(t, t); };
    if (is_checked && dtype != DType::float32 && dtype != DType::float64) return {};
    const BinaryLoop loop = binary_loop<F, TypeList>(dtype);
    return keeps_type(loop.types) ? Rows{.binary = loop.row} : Rows{};
  }
  static constexpr auto record = &record_functor<F, 2>;
  void compute(Context& ctx) override { compute_binary<F, TypeList>(ctx, 0, 1); }
};

// output = F(b, a): `a > b` is `b < a`, without another set of loops.
template <typename F, typename TypeList>
struct Swapped : Kernel {
  explicit Swapped(const Construction&) {}
  static int record(code::Recording& recording, code::Lane lane, const int* operands) {
    const int swapped[] = {operands[1], operands[0]};
    return record_functor<F, 2>(recording, lane, swapped);
  }
  void compute(Context& ctx) override { compute_binary<F, TypeList>(ctx, 1, 0); }
};

}  // namespace thalweg
