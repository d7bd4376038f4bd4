// AvgPool in two and three dimensions, and its gradient. Padding does not count.
#include "kernels/pooling.h"

namespace thalweg {
namespace {

template <typename T>
void avg_pool(const Windows& w, const T* in, T* out) {
  for_each_window_row(w, [&](int64_t image, int64_t row) {
    const T* from = in + image * w.in_size();
    T* to = out + image * w.out_size();
    Windows::Range rows = w.covered(0, row);
    const int64_t height = rows.size();
    static thread_local std::vector<T> buffer;
    if (combine_rows(w, from, rows, buffer, [](auto a, auto b) { return a + b; })) from = buffer.data(), rows = {0, 1};
    for_each_window(w, row, rows, [&](int64_t pixel, const Box& box) {
      const T count = static_cast<T>(height * box.b.size() * box.c.size());
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

// Sums of the gradients of the windows that cover a row, each divided by how many rows and columns its window covers.
template <typename T>
void add_window_rows(const Windows& w, const T* grad, int64_t row, T* columns) {
  const Windows::Range a = w.touching(0, row, row + 1);
  const int64_t width = w.out_row();
  std::fill(columns, columns + width, T(0));
  for (int64_t i = a.begin; i < a.end; ++i) {
    const T share = T(1) / static_cast<T>(w.covered(0, i).size());
    const T* from = grad + i * width;
    for (int64_t c = 0; c < width; ++c) columns[c] += from[c] * share;
  }
}

template <typename T>
void gather(const Windows& w, const T* columns, Windows::Range b, Windows::Range c, T* to) {
  for_channels<T, 4>(w.channels, [&]<typename P, int N>(int64_t channel) {
    typename P::type sum[N];
    for (auto& v : sum) v = P::fill(T(0));
    for (int64_t j = b.begin; j < b.end; ++j)
      for (int64_t k = c.begin; k < c.end; ++k) {
        const auto share = P::fill(T(1) / static_cast<T>(w.covered(1, j).size() * w.covered(2, k).size()));
        const T* from = columns + (j * w.out[2] + k) * w.channels + channel;
        for (int n = 0; n < N; ++n) sum[n] += P::load(from + n * P::size) * share;
      }
    for (int n = 0; n < N; ++n) P::store(to + channel + n * P::size, sum[n]);
  });
}

// Row by row of the result: what the windows above each column give, added up once, and from that each element.
template <typename T>
void avg_pool_grad(const Windows& w, const T* grad, T* out) {
  const int64_t cost = w.in_row() * 4;
  parallel_for(w.batch * w.in[0], pooling_grain(cost), [&](int64_t begin, int64_t end) {
    std::vector<T> columns(w.out_row());
    for (int64_t r = begin; r < end; ++r) {
      const int64_t row = r % w.in[0];
      const T* g = grad + r / w.in[0] * w.out_size();
      add_window_rows(w, g, row, columns.data());
      for (int64_t j = 0; j < w.in[1]; ++j) {
        const Windows::Range b = w.touching(1, j, j + 1);
        for (int64_t k = 0; k < w.in[2]; ++k)
          gather(w, columns.data(), b, w.touching(2, k, k + 1),
                 out + (r * w.in[1] + j) * w.in[2] * w.channels + k * w.channels);
      }
    }
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
