// The loops that all element-wise kernels share: unary, binary with broadcasting, in place where the executor allows
// it.
//
// A functor has `static R apply(T)` or `apply(T, T)` as a template over the compute type: float16 and bfloat16 are
// computed in float and rounded once. The result has the type of the operands unless `apply` returns another one
// (comparisons: bool; the magnitude of a complex number). The innermost loops are plain and contiguous, so that the
// compiler vectorizes them. A functor may also declare:
//
//   static constexpr bool modular     integers of one width give the same bits, signed or not: compile half as many
//   static constexpr float near_limit apply(float) holds up to this magnitude; far(float) beyond
//   static void row(a, stride_a, b, stride_b, out, n)   the whole loop, for float
//   template <T> static void check(a, b)   throws for operands that are refused as a whole (division by zero)
#pragma once

#include <array>
#include <cmath>
#include <concepts>

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
template <typename Row>
void for_each_row(const Broadcast& broadcast, const Row& row) {
  int last = broadcast.rank() - 1;
  int64_t inner = broadcast.size(last);
  int64_t rows = inner == 0 ? 0 : broadcast.shape().num_elements() / inner;
  parallel_for(rows, std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, inner)),
               [&](int64_t begin, int64_t end) {
                 int64_t index[Shape::kMaxRank], left = begin, a = 0, b = 0;
                 for (int d = last - 1; d >= 0; --d) {
                   index[d] = left % broadcast.size(d);
                   left /= broadcast.size(d);
                   a += index[d] * broadcast.stride_a(d);
                   b += index[d] * broadcast.stride_b(d);
                 }
                 for (int64_t r = begin; r < end; ++r) {
                   row(r * inner, a, b, inner);
                   for (int d = last - 1; d >= 0; --d) {
                     a += broadcast.stride_a(d);
                     b += broadcast.stride_b(d);
                     if (++index[d] < broadcast.size(d)) break;
                     a -= index[d] * broadcast.stride_a(d);
                     b -= index[d] * broadcast.stride_b(d);
                     index[d] = 0;
                   }
                 }
               });
}

// The unsigned type of the same width, for what does not depend on the sign; quantized types count as integers.
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

// The element type of a result, from what the functor returns.
template <typename T, typename Returned>
using ResultOf = std::conditional_t<std::is_same_v<Returned, Compute<T>>, T, Returned>;

template <typename F, typename T, typename R>
inline void unary_row(const T* in, R* out, int64_t n) {
  if constexpr (std::is_same_v<Compute<T>, float> && requires { F::near_limit; }) {
    // Block by block: one large argument sends only its neighbours the slow way.
    for (int64_t begin = 0; begin < n; begin += 1024) {
      int64_t end = std::min(n, begin + 1024);
      bool all_near = true;
      for (int64_t i = begin; i < end; ++i) all_near &= !(std::fabs(static_cast<float>(in[i])) > F::near_limit);
      if (all_near) {
#pragma GCC ivdep
        for (int64_t i = begin; i < end; ++i) out[i] = static_cast<R>(F::apply(static_cast<float>(in[i])));
      } else {
        for (int64_t i = begin; i < end; ++i) {
          float x = static_cast<float>(in[i]);
          out[i] = static_cast<R>(std::fabs(x) > F::near_limit ? F::far(x) : F::apply(x));
        }
      }
    }
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<R>(F::apply(static_cast<Compute<T>>(in[i])));
  }
}

template <typename F, typename T, typename R>
inline void unary_loop(const T* in, R* out, int64_t n) {
  parallel_for(n, kElementGrain,
               [=](int64_t begin, int64_t end) { unary_row<F>(in + begin, out + begin, end - begin); });
}

// Contiguous operands; a stride of 0 is a scalar. Both strides are 0 only where n is 1.
template <typename F, typename T, typename R>
inline void binary_row(const T* a, int64_t stride_a, const T* b, int64_t stride_b, R* out, int64_t n) {
  using C = Compute<T>;
  if constexpr (std::is_same_v<T, float> && requires { F::row(a, stride_a, b, stride_b, out, n); }) {
    if (n > 0) F::row(a, stride_a, b, stride_b, out, n);
  } else if (stride_a == stride_b) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<R>(F::apply(static_cast<C>(a[i]), static_cast<C>(b[i])));
  } else if (stride_a == 0) {
    const C x = static_cast<C>(*a);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<R>(F::apply(x, static_cast<C>(b[i])));
  } else {
    const C y = static_cast<C>(*b);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<R>(F::apply(static_cast<C>(a[i]), y));
  }
}

// Where the result's type is an attribute of its own (Real's Tout), it must be the one that the loops write.
template <typename R>
inline void require_result(const Context& ctx) {
  require(size_of(ctx.output_dtype(0)) == sizeof(R), "the result of type ", ctx.output_dtype(0), " does not go with ",
          "an input of type ", ctx.input(0).dtype());
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

// output = F(input), for the element types of the list.
template <typename F, typename TypeList>
struct Unary : Kernel {
  explicit Unary(const Construction&) {}
  static Rows rows() { return unary_rows_of<F, TypeList>(); }
  void compute(Context& ctx) override {
    Tensor& out = ctx.forward_or_allocate({0}, 0, ctx.input(0).shape());
    dispatch_for<F, TypeList>(ctx.input(0).dtype(), [&]<typename T>() {
      using R = ResultOf<T, decltype(F::apply(std::declval<Compute<T>>()))>;
      require_result<R>(ctx);
      unary_loop<F>(ctx.input(0).template flat<T>(), out.template flat<R>(), out.num_elements());
    });
  }
};

template <typename F, typename T, typename R>
inline void binary_rows(const Tensor& a, int64_t stride_a, const Tensor& b, int64_t stride_b, Tensor& out) {
  const T* pa = a.template flat<T>();
  const T* pb = b.template flat<T>();
  R* po = out.template flat<R>();
  parallel_for(out.num_elements(), kElementGrain, [=](int64_t begin, int64_t end) {
    binary_row<F>(pa + begin * stride_a, stride_a, pb + begin * stride_b, stride_b, po + begin, end - begin);
  });
}

// Output 0 = F(input i, input j), broadcast.
template <typename F, typename TypeList>
void compute_binary(Context& ctx, int i, int j) {
  const Tensor& a = ctx.input(i);
  const Tensor& b = ctx.input(j);
  require(a.dtype() == b.dtype(), "the operands have types ", a.dtype(), " and ", b.dtype());
  dispatch_for<F, TypeList>(a.dtype(), [&]<typename T>() {
    using R = ResultOf<T, decltype(F::apply(std::declval<Compute<T>>(), std::declval<Compute<T>>()))>;
    require_result<R>(ctx);
    if constexpr (requires { F::template check<T>(a, b); }) F::template check<T>(a, b);
    if (a.shape() == b.shape()) {
      Tensor& out = ctx.forward_or_allocate({i, j}, 0, a.shape());
      binary_rows<F, T, R>(a, 1, b, 1, out);
    } else if (b.num_elements() == 1 && b.rank() <= a.rank()) {
      Tensor& out = ctx.forward_or_allocate({i}, 0, a.shape());
      binary_rows<F, T, R>(a, 1, b, 0, out);
    } else if (a.num_elements() == 1 && a.rank() <= b.rank()) {
      Tensor& out = ctx.forward_or_allocate({j}, 0, b.shape());
      binary_rows<F, T, R>(a, 0, b, 1, out);
    } else {
      // A refusal names the inputs in their own order.
      if (i > j && !Broadcast::possible(a.shape(), b.shape())) Broadcast(b.shape(), a.shape());
      Broadcast broadcast(a.shape(), b.shape());
      Tensor& out = ctx.allocate(0, broadcast.shape());
      if (out.num_elements() == 0) return;
      int last = broadcast.rank() - 1;
      int64_t stride_a = broadcast.stride_a(last), stride_b = broadcast.stride_b(last);
      const T* pa = a.template flat<T>();
      const T* pb = b.template flat<T>();
      R* po = out.template flat<R>();
      for_each_row(broadcast, [&](int64_t o, int64_t p, int64_t q, int64_t n) {
        binary_row<F>(pa + p, stride_a, pb + q, stride_b, po + o, n);
      });
    }
  });
}

// output = F(a, b), broadcast.
template <typename F, typename TypeList>
struct Binary : Kernel {
  explicit Binary(const Construction&) {}
  static Rows rows() { return binary_rows_of<F, TypeList>(); }
  void compute(Context& ctx) override { compute_binary<F, TypeList>(ctx, 0, 1); }
};

// output = F(b, a): `a > b` is `b < a`, without another set of loops.
template <typename F, typename TypeList>
struct Swapped : Kernel {
  explicit Swapped(const Construction&) {}
  void compute(Context& ctx) override { compute_binary<F, TypeList>(ctx, 1, 0); }
};

}  // namespace thalweg
