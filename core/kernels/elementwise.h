// The loops that all element-wise kernels share: unary, binary with broadcasting, in place where the executor allows
// it.
//
// A functor has `static R apply(T)` or `apply(T, T)` as a template over the compute type: float16 and bfloat16 are
// computed in float and rounded once. The innermost loops are plain and contiguous, so that the compiler vectorizes
// them.
#pragma once

#include <array>

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
                 for (int64_t r = begin; r < end; ++r) {
                   int64_t left = r, a = 0, b = 0;
                   for (int d = last - 1; d >= 0; --d) {
                     int64_t index = left % broadcast.size(d);
                     left /= broadcast.size(d);
                     a += index * broadcast.stride_a(d);
                     b += index * broadcast.stride_b(d);
                   }
                   row(r * inner, a, b, inner);
                 }
               });
}

template <typename F, typename T, typename R>
inline void unary_loop(const T* in, R* out, int64_t n) {
  parallel_for(n, kElementGrain, [=](int64_t begin, int64_t end) {
#pragma GCC ivdep
    for (int64_t i = begin; i < end; ++i) out[i] = static_cast<R>(F::apply(static_cast<Compute<T>>(in[i])));
  });
}

// Contiguous operands; a stride of 0 is a scalar.
template <typename F, typename T, typename R>
inline void binary_row(const T* a, int64_t stride_a, const T* b, int64_t stride_b, R* out, int64_t n) {
  using C = Compute<T>;
  if (stride_a == 1 && stride_b == 1) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<R>(F::apply(static_cast<C>(a[i]), static_cast<C>(b[i])));
  } else if (stride_a == 0 && stride_b == 1) {
    const C x = static_cast<C>(*a);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<R>(F::apply(x, static_cast<C>(b[i])));
  } else if (stride_a == 1 && stride_b == 0) {
    const C y = static_cast<C>(*b);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<R>(F::apply(static_cast<C>(a[i]), y));
  } else {
    for (int64_t i = 0; i < n; ++i)
      out[i] = static_cast<R>(F::apply(static_cast<C>(a[i * stride_a]), static_cast<C>(b[i * stride_b])));
  }
}

// output = F(input), for the element types of the list.
template <typename F, typename TypeList>
struct Unary : Kernel {
  explicit Unary(const Construction&) {}
  void compute(Context& ctx) override {
    DType dtype = ctx.input(0).dtype();
    Tensor& out = ctx.forward_or_allocate({0}, 0, ctx.input(0).shape());
    dispatch(dtype, TypeList{}, [&]<typename T>() {
      unary_loop<F>(ctx.input(0).template flat<T>(), out.template flat<T>(), out.num_elements());
    });
  }
};

// output = F(a, b), broadcast, with results of the same type (R = void) or of type R (comparisons: bool).
template <typename F, typename TypeList, typename R = void>
struct Binary : Kernel {
  explicit Binary(const Construction&) {}
  void compute(Context& ctx) override {
    const Tensor& a = ctx.input(0);
    const Tensor& b = ctx.input(1);
    require(a.dtype() == b.dtype(), "the operands have types ", a.dtype(), " and ", b.dtype());
    dispatch(a.dtype(), TypeList{}, [&]<typename T>() {
      using Out = std::conditional_t<std::is_void_v<R>, T, R>;
      if constexpr (requires { F::template check<T>(a, b); }) F::template check<T>(a, b);
      if (a.shape() == b.shape()) {
        Tensor& out = ctx.forward_or_allocate({0, 1}, 0, a.shape());
        rows_of_one<F, T, Out>(a, 1, b, 1, out);
      } else if (b.num_elements() == 1 && b.rank() <= a.rank()) {
        Tensor& out = ctx.forward_or_allocate({0}, 0, a.shape());
        rows_of_one<F, T, Out>(a, 1, b, 0, out);
      } else if (a.num_elements() == 1 && a.rank() <= b.rank()) {
        Tensor& out = ctx.forward_or_allocate({1}, 0, b.shape());
        rows_of_one<F, T, Out>(a, 0, b, 1, out);
      } else {
        Broadcast broadcast(a.shape(), b.shape());
        Tensor& out = ctx.allocate(0, broadcast.shape());
        if (out.num_elements() == 0) return;
        int last = broadcast.rank() - 1;
        const T* pa = a.template flat<T>();
        const T* pb = b.template flat<T>();
        Out* po = out.template flat<Out>();
        for_each_row(broadcast, [&](int64_t o, int64_t i, int64_t j, int64_t n) {
          binary_row<F>(pa + i, broadcast.stride_a(last), pb + j, broadcast.stride_b(last), po + o, n);
        });
      }
    });
  }

 private:
  template <typename G, typename T, typename Out>
  static void rows_of_one(const Tensor& a, int64_t stride_a, const Tensor& b, int64_t stride_b, Tensor& out) {
    const T* pa = a.template flat<T>();
    const T* pb = b.template flat<T>();
    Out* po = out.template flat<Out>();
    int64_t n = out.num_elements();
    if (n <= kElementGrain) {
      binary_row<G>(pa, stride_a, pb, stride_b, po, n);
      return;
    }
    parallel_for(n, kElementGrain, [=](int64_t begin, int64_t end) {
      binary_row<G>(pa + begin * stride_a, stride_a, pb + begin * stride_b, stride_b, po + begin, end - begin);
    });
  }
};

}  // namespace thalweg
