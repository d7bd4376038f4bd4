// Dilation2D and its gradients: like a depthwise convolution, with maxima of sums in the place of sums of products.
//
// The gradient flows to the first of the largest sums. Padding never wins; neither does NaN.
#include "compute/convolution/convolution_shape.h"
#include "compute/elementwise/elementwise.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

// Sums wrap around, as integers do elsewhere.
template <typename T>
T sum(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
  } else {
    return a + b;
  }
}

template <typename T>
constexpr Compute<T> lowest() {
  if constexpr (std::is_same_v<T, half>)
    return -65504.0f;
  else if constexpr (std::is_same_v<T, bfloat16>)
    return -0x1.fep127f;
  else
    return std::numeric_limits<T>::lowest();
}

// The pixels of the input that meet the filter at one place of the output.
template <typename T>
class Windows {
 public:
  Windows(const ConvolutionShape& shape, const T* input, const T* filter)
      : s_(shape), depth_(shape.in_channels), input_(input), filter_(filter) {}

  // Calls cell(pixel of the input, pixel of the filter) for each pair within the image.
  template <typename Cell>
  void for_each_cell(int64_t image, int64_t y, int64_t x, const Cell& cell) const {
    for (int64_t i = 0; i < s_.filter[1]; ++i) {
      const int64_t row = y * s_.stride[1] - s_.before[1] + i * s_.dilation[1];
      if (row < 0 || row >= s_.in[1]) continue;
      for (int64_t j = 0; j < s_.filter[2]; ++j) {
        const int64_t column = x * s_.stride[2] - s_.before[2] + j * s_.dilation[2];
        if (column < 0 || column >= s_.in[2]) continue;
        cell((image * s_.in[1] + row) * s_.in[2] + column, i * s_.filter[2] + j);
      }
    }
  }

  // The largest sum in each channel.
  void largest(int64_t image, int64_t y, int64_t x, Compute<T>* best) const {
    std::fill_n(best, depth_, lowest<T>());
    for_each_cell(image, y, x, [&](int64_t from, int64_t with) {
      const T *a = input_ + from * depth_, *b = filter_ + with * depth_;
      for (int64_t c = 0; c < depth_; ++c) {
        const Compute<T> value = sum<Compute<T>>(a[c], b[c]);
        best[c] = value > best[c] ? value : best[c];
      }
    });
  }

  // Also where it comes from. A place at which nothing wins belongs to the first pair.
  void winners(int64_t image, int64_t y, int64_t x, Compute<T>* best, int64_t* pixel, int64_t* element) const {
    std::fill_n(best, depth_, lowest<T>());
    bool first = true;
    for_each_cell(image, y, x, [&](int64_t from, int64_t with) {
      const T *a = input_ + from * depth_, *b = filter_ + with * depth_;
      for (int64_t c = 0; c < depth_; ++c) {
        const Compute<T> value = sum<Compute<T>>(a[c], b[c]);
        if (!first && !(value > best[c])) continue;
        if (value > best[c]) best[c] = value;
        pixel[c] = from;
        element[c] = with;
      }
      first = false;
    });
  }

 private:
  const ConvolutionShape& s_;
  int64_t depth_;
  const T *input_, *filter_;
};

struct Dilation : Kernel {
  explicit Dilation(const Construction& c) : attributes(c, 2, true, "rates") {}

  ConvolutionShape shape_of(Context& ctx) const {
    const Tensor& filter = ctx.input(1);
    require(filter.rank() == 3, "filter must be 3-dimensional: ", filter.shape());
    return attributes.shape_of(ctx.input(0).shape(), filter.shape().inserted(3, 1));
  }

  void compute(Context& ctx) override {
    const ConvolutionShape s = shape_of(ctx);
    Tensor& out = ctx.allocate(0, attributes.output_of(s));
    if (out.num_elements() == 0) return;
    const int64_t rows = s.batch * s.out[1], row_work = s.out[2] * s.filter_area() * s.in_channels;
    Tensor scratch(DType::float64, Shape{rows, s.in_channels});  // The widest type; one line per row of the output.
    dispatch(out.dtype(), Reals{}, [&]<typename T>() {
      const Windows<T> windows(s, ctx.input(0).flat<T>(), ctx.input(1).flat<T>());
      T* to = out.flat<T>();
      parallel_for(rows, std::max<int64_t>(1, kElementGrain / row_work), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          auto* best = reinterpret_cast<Compute<T>*>(scratch.flat<double>() + row * s.in_channels);
          for (int64_t x = 0; x < s.out[2]; ++x) {
            windows.largest(row / s.out[1], row % s.out[1], x, best);
            T* at = to + (row * s.out[2] + x) * s.in_channels;
            for (int64_t c = 0; c < s.in_channels; ++c) at[c] = static_cast<T>(best[c]);
          }
        }
      });
    });
  }

  ConvolutionAttributes attributes;
};

// The gradient of the input (`kInput`) or of the filter, in one thread: sums are made in a fixed order.
template <bool kInput>
struct DilationGradient : Dilation {
  using Dilation::Dilation;
  void compute(Context& ctx) override {
    const ConvolutionShape s = shape_of(ctx);
    const Tensor& grad = ctx.input(2);
    attributes.check_gradient(s, grad.shape());
    Tensor& out = ctx.allocate(0, ctx.input(kInput ? 0 : 1).shape());
    const int64_t depth = s.in_channels;
    dispatch(out.dtype(), Reals{}, [&]<typename T>() {
      using C = Compute<T>;
      const Windows<T> windows(s, ctx.input(0).flat<T>(), ctx.input(1).flat<T>());
      std::vector<C> best(depth), total(out.num_elements(), C(0));
      std::vector<int64_t> pixel(depth), element(depth);
      const T* from = grad.flat<T>();
      for (int64_t image = 0; image < s.batch; ++image)
        for (int64_t y = 0; y < s.out[1]; ++y)
          for (int64_t x = 0; x < s.out[2]; ++x, from += depth) {
            std::fill(pixel.begin(), pixel.end(), -1);
            windows.winners(image, y, x, best.data(), pixel.data(), element.data());
            for (int64_t c = 0; c < depth; ++c) {
              if (pixel[c] < 0) continue;
              C& sum_of = total[(kInput ? pixel[c] : element[c]) * depth + c];
              sum_of = sum<C>(sum_of, from[c]);
            }
          }
      std::transform(total.begin(), total.end(), out.flat<T>(), [](C value) { return static_cast<T>(value); });
    });
  }
};

REGISTER(kernel("Dilation2D").types("T", Reals{}).make<Dilation>());
REGISTER(kernel("Dilation2DBackpropInput").types("T", Reals{}).make<DilationGradient<true>>());
REGISTER(kernel("Dilation2DBackpropFilter").types("T", Reals{}).make<DilationGradient<false>>());

}  // namespace
}  // namespace thalweg
