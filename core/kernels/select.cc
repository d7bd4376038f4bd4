// Select and SelectV2: elements of one tensor or of another, as a condition says.
#include "compute/copies/elements.h"
#include "compute/elementwise/broadcast_rows.h"

namespace thalweg {
namespace {

template <typename T>
void select_row(const bool* c, int64_t sc, const T* t, int64_t st, const T* e, int64_t se, T* out, int64_t n) {
  if (sc == 0) {
    const T* from = *c ? t : e;
    int64_t step = *c ? st : se;
    for (int64_t i = 0; i < n; ++i) out[i] = from[i * step];
  } else if (st == 1 && se == 1) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      T a = t[i], b = e[i];  // Both read, so that this needs no branch.
      out[i] = c[i] ? a : b;
    }
  } else if (st == 1 && se == 0) {
    const T other = *e;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      T a = t[i];
      out[i] = c[i] ? a : other;
    }
  } else if (st == 0 && se == 1) {
    const T value = *t;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      T b = e[i];
      out[i] = c[i] ? value : b;
    }
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = c[i] ? t[i * st] : e[i * se];
  }
}

// The condition has the shape of the values, or is a scalar, or a vector that chooses whole rows.
void select(Context& ctx) {
  const Tensor& c = ctx.input(0);
  const Tensor& t = ctx.input(1);
  const Tensor& e = ctx.input(2);
  require(t.shape() == e.shape(), "'then' and 'else' must have the same size, but received: ", t.shape(), " vs. ",
          e.shape());
  if (c.rank() == 0) return ctx.set_output(0, ctx.take_input(c.flat<bool>()[0] ? 1 : 2));
  int64_t n = t.num_elements(), row = 1;
  if (!(c.shape() == t.shape())) {
    require(c.rank() == 1 && t.rank() >= 1 && c.dim(0) == t.dim(0),
            "the condition must have the shape of 'then', be a scalar, or a vector of the size of its first dimension; "
            "got a condition of shape ",
            c.shape(), " and values of shape ", t.shape());
    row = t.dim(0) == 0 ? 1 : n / t.dim(0);
  }
  Tensor& out = ctx.forward_or_allocate({1, 2}, 0, t.shape());
  const bool* condition = c.flat<bool>();
  dispatch_width(t.dtype(), [&]<typename T>() {
    const T* then = ctx.input(1).template flat<T>();
    const T* otherwise = ctx.input(2).template flat<T>();
    T* to = out.template flat<T>();
    if (row == 1)
      parallel_for(n, kElementGrain, [=](int64_t begin, int64_t end) {
        select_row(condition + begin, 1, then + begin, 1, otherwise + begin, 1, to + begin, end - begin);
      });
    else if (row > 0)
      parallel_for(n / row, std::max<int64_t>(1, kElementGrain / row), [=](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          std::copy_n((condition[i] ? then : otherwise) + i * row, row, to + i * row);
      });
  });
}

void select_v2(Context& ctx) {
  const Tensor& c = ctx.input(0);
  const Tensor& t = ctx.input(1);
  const Tensor& e = ctx.input(2);
  if (c.shape() == t.shape() && c.shape() == e.shape()) return select(ctx);
  BroadcastRows<3> rows({&c.shape(), &t.shape(), &e.shape()});
  Tensor& out = ctx.allocate(0, rows.shape());
  const bool* condition = c.flat<bool>();
  dispatch_width(t.dtype(), [&]<typename T>() {
    const T* then = t.flat<T>();
    const T* otherwise = e.flat<T>();
    T* to = out.template flat<T>();
    rows.run([&](int64_t o, const auto& at, const auto& step, int64_t n) {
      select_row(condition + at[0], step[0], then + at[1], step[1], otherwise + at[2], step[2], to + o, n);
    });
  });
}

REGISTER(kernel("Select").function<select>());
REGISTER(kernel("SelectV2").function<select_v2>());

}  // namespace
}  // namespace thalweg
