// AvgPool in two and three dimensions, and its gradient. Padding does not count.
#include "kernels/pooling.h"

namespace thalweg {
namespace {

template <typename T>
void avg_pool(const Windows& w, const T* in, T* out) {
  for_each_window_row(w, [&](int64_t image, int64_t row) {
    const T* from = in + image * w.in_size();
    T* to = out + image * w.out_size();
    for_each_window(w, row, [&](int64_t pixel, const Box& box) {
      const T count = static_cast<T>(box.size());
      for_channels<T, 4>(w.channels, [&]<typename P, int N>(int64_t channel) {
        typename P::type sum[N];
        for (auto& v : sum) v = P::fill(T(0));
        for_each_pixel(w, box, [&](int64_t at) {
          const T* x = from + at * w.channels + channel;
          for (int n = 0; n < N; ++n) sum[n] += P::load(x + n * P::size);
        });
        for (int n = 0; n < N; ++n) P::store(to + pixel * w.channels + channel + n * P::size, sum[n] / P::fill(count));
      });
    });
  });
}

template <typename T>
void avg_pool_grad(const Windows& w, const T* grad, T* out) {
  for_each_band(w, [&](int64_t image, int64_t begin, int64_t end) {
    const T* g = grad + image * w.out_size();
    T* to = out + image * w.in_size();
    std::fill(to + begin * w.in_row(), to + end * w.in_row(), T(0));
    const Windows::Range rows = w.touching(begin, end);
    for (int64_t row = rows.begin; row < rows.end; ++row)
      for_each_window(w, row, [&](int64_t pixel, const Box& box) {
        if (box.empty()) return;
        const T share = T(1) / static_cast<T>(box.size());
        const Box mine{{std::max(box.a.begin, begin), std::min(box.a.end, end)}, box.b, box.c};
        for_channels<T, 4>(w.channels, [&]<typename P, int N>(int64_t channel) {
          typename P::type amount[N];
          for (int n = 0; n < N; ++n)
            amount[n] = P::load(g + pixel * w.channels + channel + n * P::size) * P::fill(share);
          for_each_pixel(w, mine, [&](int64_t at) {
            T* x = to + at * w.channels + channel;
            for (int n = 0; n < N; ++n) P::store(x + n * P::size, P::load(x + n * P::size) + amount[n]);
          });
        });
      });
  });
}

template <int spatial>
struct AvgPool : Kernel {
  explicit AvgPool(const Construction& c) : pooling(c, spatial) {}
  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    const Windows w = pooling.windows(in.shape());
    Tensor& out = ctx.allocate(0, w.out_shape);
    if (out.num_elements() == 0) return;
    dispatch(in.dtype(), Floats{}, [&]<typename T>() {
      using C = Compute<T>;
      Tensor wide = widened(in), result = is_reduced_float<T> ? Tensor(DType::float32, w.out_shape) : out;
      avg_pool(w, wide.flat<C>(), result.flat<C>());
      if constexpr (is_reduced_float<T>) narrow_into(result, out);
    });
  }
  Pooling pooling;
};

// Inputs: the shape of the original input, and the gradient of the output.
template <int spatial>
struct AvgPoolGrad : Kernel {
  explicit AvgPoolGrad(const Construction& c) : pooling(c, spatial) {}
  void compute(Context& ctx) override {
    const Tensor& sizes = ctx.input(0);
    const Tensor& grad = ctx.input(1);
    require(sizes.rank() == 1 && sizes.dim(0) == spatial + 2, "orig_input_shape must be a vector of ", spatial + 2,
            " elements, got shape ", sizes.shape());
    const Windows w = pooling.windows(Shape(to_int64s(sizes)));
    require(grad.shape() == w.out_shape, "Expected grad shape to be ", w.out_shape, ", but got ", grad.shape());
    Tensor& out = ctx.allocate(0, w.in_shape);
    if (out.num_elements() == 0) return;
    dispatch(grad.dtype(), Floats{}, [&]<typename T>() {
      using C = Compute<T>;
      Tensor wide = widened(grad), result = is_reduced_float<T> ? Tensor(DType::float32, w.in_shape) : out;
      avg_pool_grad(w, wide.flat<C>(), result.flat<C>());
      if constexpr (is_reduced_float<T>) narrow_into(result, out);
    });
  }
  Pooling pooling;
};

REGISTER(kernel("AvgPool").types("T", Floats{}).make<AvgPool<2>>());
REGISTER(kernel("AvgPoolGrad").types("T", Floats{}).make<AvgPoolGrad<2>>());
REGISTER(kernel("AvgPool3D").types("T", Floats{}).make<AvgPool<3>>());
REGISTER(kernel("AvgPool3DGrad").types("T", Floats{}).make<AvgPoolGrad<3>>());

}  // namespace
}  // namespace thalweg
