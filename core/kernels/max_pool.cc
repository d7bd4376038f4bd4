// MaxPool in two and three dimensions, and its gradients, which go to a window's maximum, or come from there.
//
// The gradients look for the maximum again, which costs less than to remember it: `orig_output` only has to fit. Of
// equal elements the first counts; NaN is never the maximum, as in TensorFlow.
#include "compute/copies/elements.h"
#include "compute/windows/pooling.h"

namespace thalweg {
namespace {

using Elements = Join<WideFloats, Ints>;
using Reduced = Types<DType::float16, DType::bfloat16>;
using All = Join<Elements, Join<Reduced, Types<DType::qint8>>>;

template <typename T>
constexpr T lowest() {
  if constexpr (std::numeric_limits<T>::has_infinity)
    return -std::numeric_limits<T>::infinity();
  else
    return std::numeric_limits<T>::lowest();
}

// The result of a window without elements: the least of the elements' type, in the type that they are computed in.
template <typename T>
T least(DType dtype) {
  switch (dtype) {
    case DType::int8:
    case DType::qint8:
      return static_cast<T>(std::numeric_limits<int8_t>::lowest());
    case DType::int16:
      return static_cast<T>(std::numeric_limits<int16_t>::lowest());
    case DType::uint8:
    case DType::uint16:
      return T(0);
    default:
      return lowest<T>();
  }
}

template <typename T>
void max_pool(const Windows& w, const T* in, T least, T* out) {
  const auto larger = [](auto best, auto v) { return v > best ? v : best; };
  for_each_window_row(w, [&](int64_t image, int64_t row) {
    const T* from = in + image * w.in_size();
    T* to = out + image * w.out_size();
    Windows::Range rows = w.covered(0, row);
    static thread_local std::vector<T> buffer;
    // NaN is not larger than anything, so a row of it must not come first.
    if (combine_rows(w, from, rows, buffer, [&](auto a, auto b) { return a == a ? larger(a, b) : b; }))
      from = buffer.data(), rows = {0, 1};
    for_each_window(w, row, rows, [&](int64_t pixel, const Box& box) {
      for_channels<T, 4>(w.channels, [&]<typename P, int N>(int64_t channel) {
        typename P::type best[N];
#pragma GCC unroll 8
        for (auto& v : best) v = P::fill(least);
        for_each_pixel(w, box, [&](int64_t at) {
          const T* x = from + at * w.channels + channel;
#pragma GCC unroll 8
          for (int n = 0; n < N; ++n) {
            best[n] = larger(best[n], P::load(x + n * P::size));
            // The processor does not foresee several rows that are read in turn.
            __builtin_prefetch(reinterpret_cast<const char*>(x + n * P::size) + 2048);
          }
        });
#pragma GCC unroll 8
        for (int n = 0; n < N; ++n) P::store(to + pixel * w.channels + channel + n * P::size, best[n]);
      });
    });
  });
}

// Calls found(n, places) with the pixels of the maxima, for N registers of channels.
template <typename P, int N, typename T, typename Found>
inline void find_maxima(const Windows& w, const T* from, const Box& box, const Found& found) {
  typename P::type best[N];
  typename P::places places[N];
  const int64_t first = (box.a.begin * w.in[1] + box.b.begin) * w.in[2] + box.c.begin;
#pragma GCC unroll 8
  for (int n = 0; n < N; ++n) best[n] = P::fill(lowest<T>()), places[n] = P::place(first);
  for_each_pixel(w, box, [&](int64_t at) {
    const T* x = from + at * w.channels;
    const auto here = P::place(at);
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      auto v = P::load(x + n * P::size);
      auto larger = v > best[n];
      best[n] = larger ? v : best[n];
      places[n] = larger ? here : places[n];
    }
  });
#pragma GCC unroll 8
  for (int n = 0; n < N; ++n) found(n, places[n]);
}

// Windows of a few pixels that belong to no other one: their gradients are stored, not added up.
constexpr int kFewPixels = 16;
struct Apart {
  bool apart = true, everything = true;  // everything: they cover all pixels
  explicit Apart(const Windows& w) {
    int64_t pixels = 1;
    for (int d = 0; d < 3; ++d) {
      pixels *= std::min<int64_t>(w.window[d], kFewPixels + 1);
      apart &= w.stride[d] >= w.window[d];
      everything &= w.stride[d] == w.window[d] && w.out[d] * w.stride[d] - w.before[d] >= w.in[d];
    }
    apart &= pixels <= kFewPixels;
    everything &= apart;
  }
};

// The gradient of such a window.
template <typename T>
void store_gradient(const Windows& w, const T* from, const Box& box, const T* grad, T* to) {
  int64_t offsets[kFewPixels];
  int count = 0;
  for_each_pixel(w, box, [&](int64_t at) { offsets[count++] = at * w.channels; });
  for_channels<T, 2>(w.channels, [&]<typename P, int N>(int64_t channel) {
    typename P::type best[N], amount[N];
    typename P::places places[N];
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      best[n] = P::fill(lowest<T>());
      places[n] = P::place(0);
      // As added to zero: -0 becomes 0.
      amount[n] = P::load(grad + channel + n * P::size) + P::fill(T(0));
    }
    for (int k = 0; k < count; ++k) {
      const auto here = P::place(k);
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) {
        const auto v = P::load(from + offsets[k] + channel + n * P::size);
        const auto larger = v > best[n];
        best[n] = larger ? v : best[n];
        places[n] = larger ? here : places[n];
      }
    }
    for (int k = 0; k < count; ++k) {
      const auto here = P::place(k);
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n)
        P::store(to + offsets[k] + channel + n * P::size,
                 places[n] == here ? amount[n] : typename P::type(P::fill(T(0))));
    }
  });
}

template <typename T>
void max_pool_grad(const Windows& w, const T* in, const T* grad, T* out) {
  const Apart windows(w);
  for_each_band(w, [&](int64_t image, int64_t begin, int64_t end) {
    const T* from = in + image * w.in_size();
    const T* g = grad + image * w.out_size();
    T* to = out + image * w.in_size();
    const Windows::Range rows = w.touching(0, begin, end);
    // Windows of several pixels that a band cuts are added to zeros.
    const bool whole =
        windows.everything && w.covered(0, rows.begin).begin >= begin && w.covered(0, rows.end - 1).end <= end;
    if (!whole) std::fill(to + begin * w.in_row(), to + end * w.in_row(), T(0));
    for (int64_t row = rows.begin; row < rows.end; ++row)
      for_each_window(w, row, [&](int64_t pixel, const Box& box) {
        if (box.empty()) return;
        const Box part{{std::max(box.a.begin, begin), std::min(box.a.end, end)}, box.b, box.c};
        if (windows.apart && part.size() == box.size()) return store_gradient(w, from, box, g + pixel * w.channels, to);
        for_channels<T, 2>(w.channels, [&]<typename P, int N>(int64_t channel) {
          find_maxima<P, N>(w, from + channel, box, [&](int n, auto places) {
            const int64_t c = channel + n * P::size;
            const auto amount = P::load(g + pixel * w.channels + c);
            for_each_pixel(w, part, [&](int64_t at) {
              T* x = to + at * w.channels + c;
              const auto sum = P::load(x) + amount;
              P::store(x, places == P::place(at) ? typename P::type(sum) : P::load(x));
            });
          });
        });
      });
  });
}

// The second gradient: the change of each maximum for a change of the input in the direction `grad`.
template <typename T>
void max_pool_grad_grad(const Windows& w, const T* in, const T* grad, T* out) {
  for_each_window_row(w, [&](int64_t image, int64_t row) {
    const T* from = in + image * w.in_size();
    const T* g = grad + image * w.in_size();
    T* to = out + image * w.out_size();
    for_each_window(w, row, [&](int64_t pixel, const Box& box) {
      for (int64_t c = 0; c < w.channels; ++c) {
        int64_t place = -1;
        if (!box.empty()) find_maxima<Single<T>, 1>(w, from + c, box, [&](int, int64_t at) { place = at; });
        to[pixel * w.channels + c] = place < 0 ? T(0) : g[place * w.channels + c];
      }
    });
  });
}

// Places are kept in 32 bits for elements of 32 bits.
void check_size(const Windows& w) {
  require(w.in[0] * w.in[1] * w.in[2] < (int64_t{1} << 31), "an image of shape ", w.in_shape, " is too large");
}

// Calls body with the type that elements are computed in, and a tensor of it to write to; converts that into `out`.
template <typename Body>
void compute_wide(Tensor& out, const Body& body) {
  const DType wide = wide_type(out.dtype());
  Tensor result = wide == out.dtype() ? out : Tensor(wide, out.shape());
  dispatch(wide, WideTypes{}, [&]<typename T>() { body.template operator()<T>(result); });
  if (wide != out.dtype()) narrow_into(result, out);
}

void pool_maxima(const Tensor& in, const Windows& w, Tensor& out) {
  if (out.num_elements() == 0) return;
  const Tensor wide = widened(in);
  compute_wide(
      out, [&]<typename T>(Tensor& result) { max_pool(w, wide.flat<T>(), least<T>(in.dtype()), result.flat<T>()); });
}

void pool_gradients(const Tensor& in, const Tensor& grad, const Windows& w, bool second, Tensor& out) {
  if (out.num_elements() == 0) return;
  const Tensor wide = widened(in), wide_grad = widened(grad);
  compute_wide(out, [&]<typename T>(Tensor& result) {
    if (second)
      max_pool_grad_grad(w, wide.flat<T>(), wide_grad.flat<T>(), result.flat<T>());
    else
      max_pool_grad(w, wide.flat<T>(), wide_grad.flat<T>(), result.flat<T>());
  });
}

template <int spatial>
struct MaxPool : Kernel {
  explicit MaxPool(const Construction& c) : pooling(c, spatial) {}
  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    const Windows w =
        ctx.num_inputs() == 3 ? pooling.windows(in.shape(), ctx.input(1), ctx.input(2)) : pooling.windows(in.shape());
    pool_maxima(in, w, ctx.allocate(0, w.out_shape));
  }
  Pooling pooling;
};

// MaxPoolGrad and MaxPoolGradGrad take (orig_input, orig_output, grad), with ksize and strides in the second version.
template <int spatial, bool second>
struct MaxPoolGrad : Kernel {
  explicit MaxPoolGrad(const Construction& c) : pooling(c, spatial) {}
  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    const Tensor& grad = ctx.input(2);
    const Windows w =
        ctx.num_inputs() == 5 ? pooling.windows(in.shape(), ctx.input(3), ctx.input(4)) : pooling.windows(in.shape());
    const Shape& wanted = second ? w.in_shape : w.out_shape;
    require(ctx.input(1).shape() == w.out_shape, "Expected orig_output shape to be ", w.out_shape, ", but got ",
            ctx.input(1).shape());
    require(grad.shape() == wanted, "Expected grad shape to be ", wanted, ", but got ", grad.shape());
    require(grad.dtype() == in.dtype(), "orig_input and grad must have one type, got ", in.dtype(), " and ",
            grad.dtype());
    check_size(w);
    pool_gradients(in, grad, w, second, ctx.allocate(0, second ? w.out_shape : w.in_shape));
  }
  Pooling pooling;
};

REGISTER(kernel("MaxPool").types("T", All{}).make<MaxPool<2>>());
REGISTER(kernel("MaxPoolV2").types("T", All{}).make<MaxPool<2>>());
REGISTER(kernel("MaxPoolGrad").types("T", All{}).make<MaxPoolGrad<2, false>>());
REGISTER(kernel("MaxPoolGradV2").types("T", All{}).make<MaxPoolGrad<2, false>>());
REGISTER(kernel("MaxPoolGradGrad").types("T", All{}).make<MaxPoolGrad<2, true>>());
REGISTER(kernel("MaxPoolGradGradV2").types("T", All{}).make<MaxPoolGrad<2, true>>());
REGISTER(kernel("MaxPool3D").types("T", Floats{}).make<MaxPool<3>>());
REGISTER(kernel("MaxPool3DGrad").types("T", Floats{}).make<MaxPoolGrad<3, false>>());
REGISTER(kernel("MaxPool3DGradGrad").types("T", All{}).make<MaxPoolGrad<3, true>>());

}  // namespace
}  // namespace thalweg
