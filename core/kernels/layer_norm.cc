// _LayerNorm and its gradient: every row has its own mean and variance; scale and offset are shared by all rows.
#include "compute/reduction/column_sums.h"
#include "compute/windows/pooling.h"
#include "tensor/reduced_floats.h"

namespace thalweg {
namespace {

// The input as rows.
struct RowView {
  RowView(const Shape& shape) {
    require(shape.rank() >= 1, "x must have at least one dimension, got shape ", shape);
    n = shape[shape.rank() - 1];
    rows = n == 0 ? 0 : shape.num_elements() / n;
    outer = shape.removed(shape.rank() - 1);
  }
  void check(const Tensor& v, const char* what) const {
    require(v.rank() == 1 && v.dim(0) == n, what, " must be a vector with one element per column: expected [", n,
            "], got shape ", v.shape());
  }
  int64_t rows, n;
  Shape outer;
};

// A vector of the compute type.
template <typename T>
std::vector<Compute<T>> widened_vector(const Tensor& t) {
  const T* from = t.flat<T>();
  return std::vector<Compute<T>>(from, from + t.num_elements());
}

// Outputs: y, and for the gradient the mean and the inverse deviation of each row.
struct LayerNorm : Kernel {
  explicit LayerNorm(const Construction& c) : epsilon(c.attr<float>("epsilon", 1e-5f)) {}
  void compute(Context& ctx) override {
    const Shape shape = ctx.input(0).shape();
    const RowView view(shape);
    view.check(ctx.input(1), "scale");
    view.check(ctx.input(2), "offset");
    Tensor& out = ctx.forward_or_allocate({0}, 0, shape);
    Tensor& means = ctx.allocate(1, view.outer);
    Tensor& inverses = ctx.allocate(2, view.outer);
    if (view.n == 0) {  // Rows without elements have no mean.
      for (Tensor* t : {&means, &inverses}) std::memset(t->raw(), 0, t->bytes());
      return;
    }
    dispatch(out.dtype(), Floats{}, [&]<typename T>() {
      using C = Compute<T>;
      const T* in = ctx.input(0).flat<T>();
      T* to = out.flat<T>();
      C* mean = means.flat<C>();
      C* inverse = inverses.flat<C>();
      const auto scale = widened_vector<T>(ctx.input(1)), offset = widened_vector<T>(ctx.input(2));
      const int64_t n = view.n;
      parallel_for(view.rows, pooling_grain(n * 2), [&](int64_t begin, int64_t end) {
        std::vector<C> buffer(is_reduced_float<T> ? n : 0);
        for (int64_t r = begin; r < end; ++r) {
          const C* x = widened_row(in + r * n, buffer.data(), n);
          C* y = nullptr;
          if constexpr (is_reduced_float<T>)
            y = buffer.data();
          else
            y = to + r * n;
          const C centre = lane_sum<C>(n, [&](int64_t i) { return x[i]; }) / static_cast<C>(n);
          const C squares = lane_sum<C>(n, [&](int64_t i) { return (x[i] - centre) * (x[i] - centre); });
          const C factor = C(1) / std::sqrt(squares / static_cast<C>(n) + static_cast<C>(epsilon));
          mean[r] = centre;
          inverse[r] = factor;
#pragma GCC ivdep
          for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - centre) * factor * scale[i] + offset[i];
          if constexpr (is_reduced_float<T>) narrow_row(y, to + r * n, n);
        }
      });
    });
  }
  float epsilon;
};

// Inputs: the gradient of y, x, scale, and the means and inverse deviations; outputs: the gradients of x, scale,
// offset.
void layer_norm_grad(Context& ctx) {
  const Shape shape = ctx.input(1).shape();
  const RowView view(shape);
  require(ctx.input(0).shape() == shape, "grad and x must have one shape, got ", ctx.input(0).shape(), " and ", shape);
  view.check(ctx.input(2), "scale");
  for (int i : {3, 4})
    require(ctx.input(i).shape() == view.outer, i == 3 ? "mean" : "inverse", " must have shape ", view.outer, ", got ",
            ctx.input(i).shape());
  Tensor& out = ctx.allocate(0, shape);
  Tensor& scale_grad = ctx.allocate(1, Shape{view.n});
  Tensor& offset_grad = ctx.allocate(2, Shape{view.n});
  dispatch(out.dtype(), Floats{}, [&]<typename T>() {
    using C = Compute<T>;
    const T* grads = ctx.input(0).flat<T>();
    const T* in = ctx.input(1).flat<T>();
    const C* means = ctx.input(3).flat<C>();
    const C* inverses = ctx.input(4).flat<C>();
    const auto scale = widened_vector<T>(ctx.input(2));
    const int64_t n = view.n;
    const C part = n ? C(1) / static_cast<C>(n) : C(0);
    std::vector<C> sums(2 * n);
    sum_pieces(view.rows, n, 2 * n, sums.data(), [&](int64_t begin, int64_t end, C* total) {
      std::vector<C> buffers(3 * n);
      C* normal = buffers.data();
      for (int64_t r = begin; r < end; ++r) {
        const C* x = widened_row(in + r * n, normal, n);
        const C* g = widened_row(grads + r * n, buffers.data() + n, n);
        const C centre = means[r], inverse = inverses[r];
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) {
          normal[i] = (x[i] - centre) * inverse;
          total[i] += g[i] * normal[i];
          total[n + i] += g[i];
        }
        const C average = lane_sum<C>(n, [&](int64_t i) { return g[i] * scale[i]; }) * part;
        const C slope = lane_sum<C>(n, [&](int64_t i) { return g[i] * scale[i] * normal[i]; }) * part;
        C* dx = nullptr;
        if constexpr (is_reduced_float<T>)
          dx = buffers.data() + 2 * n;
        else
          dx = out.flat<T>() + r * n;
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) dx[i] = (g[i] * scale[i] - average - normal[i] * slope) * inverse;
        if constexpr (is_reduced_float<T>) narrow_row(dx, out.flat<T>() + r * n, n);
      }
    });
    for (int64_t i = 0; i < n; ++i) {
      scale_grad.flat<T>()[i] = T(sums[i]);
      offset_grad.flat<T>()[i] = T(sums[n + i]);
    }
  });
}

REGISTER(kernel("_LayerNorm").types("T", Floats{}).make<LayerNorm>());
REGISTER(kernel("_LayerNormGrad").types("T", Floats{}).function<layer_norm_grad>());

}  // namespace
}  // namespace thalweg
