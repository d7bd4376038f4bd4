// AvgPool in two and three dimensions, and its gradient. Padding does not count.
#include "compute/windows/pooling.h"

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
#pragma GCC unroll 8
        for (auto& v : sum) v = P::fill(T(0));
        for_each_pixel(w, box, [&](int64_t at) {
          const T* x = from + at * w.channels + channel;
#pragma GCC unroll 8
          for (int n = 0; n < N; ++n) sum[n] += P::load(x + n * P::size);
        });
#pragma GCC unroll 8
        for (int n = 0; n < N; ++n) P::store(to + pixel * w.channels + channel + n * P::size, sum[n] / P::fill(count));
      });
    });
  });
}

// Sums of the gradients of the windows that cover a row, each divided by the size of its window; `shares` holds the
// reciprocal of the part of the other dimensions that each window covers.
template <typename T>
void add_window_rows(const Windows& w, const T* grad, const std::vector<T>& shares, int64_t row, T* columns) {
  const Windows::Range a = w.touching(0, row, row + 1);
  const int64_t pixels = w.out[1] * w.out[2], channels = w.channels;
  if (a.size() <= 0) std::fill(columns, columns + w.out_row(), T(0));
  for (int64_t i = a.begin; i < a.end; ++i) {
    const T height = T(1) / static_cast<T>(w.covered(0, i).size());
    for (int64_t p = 0; p < pixels; ++p) {
      const T share = shares[p] * height;
      const T* from = grad + (i * pixels + p) * channels;
      T* to = columns + p * channels;
      if (i == a.begin) {
#pragma GCC ivdep
        for (int64_t c = 0; c < channels; ++c) to[c] = from[c] * share;
      } else {
#pragma GCC ivdep
        for (int64_t c = 0; c < channels; ++c) to[c] += from[c] * share;
      }
    }
  }
}

template <typename T>
void gather(const Windows& w, const T* columns, Windows::Range b, Windows::Range c, T* to) {
  for_channels<T, 4>(w.channels, [&]<typename P, int N>(int64_t channel) {
    typename P::type sum[N];
#pragma GCC unroll 8
    for (auto& v : sum) v = P::fill(T(0));
    for (int64_t j = b.begin; j < b.end; ++j)
      for (int64_t k = c.begin; k < c.end; ++k) {
        const T* from = columns + (j * w.out[2] + k) * w.channels + channel;
#pragma GCC unroll 8
        for (int n = 0; n < N; ++n) sum[n] += P::load(from + n * P::size);
      }
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) P::store(to + channel + n * P::size, sum[n]);
  });
}

// Row by row of the result: the gradients of the windows over each column are added up once, and give each element.
template <typename T>
void avg_pool_grad(const Windows& w, const T* grad, T* out) {
  std::vector<T> shares;
  for (int64_t j = 0; j < w.out[1]; ++j)
    for (int64_t k = 0; k < w.out[2]; ++k)
      shares.push_back(T(1) / static_cast<T>(w.covered(1, j).size() * w.covered(2, k).size()));
  parallel_for(w.batch * w.in[0], pooling_grain(w.in_row() * 4), [&](int64_t begin, int64_t end) {
    std::vector<T> columns(w.out_row());
    for (int64_t r = begin; r < end; ++r) {
      add_window_rows(w, grad + r / w.in[0] * w.out_size(), shares, r % w.in[0], columns.data());
      T* to = out + r * w.in_row();
      for (int64_t j = 0; j < w.in[1]; ++j) {
        const Windows::Range b = w.touching(1, j, j + 1);
        for (int64_t k = 0; k < w.in[2]; ++k, to += w.channels)
          gather(w, columns.data(), b, w.touching(2, k, k + 1), to);
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
