// Dilation2D and its gradients: like a depthwise convolution, with maxima of sums in the place of sums of products.
//
// The gradient flows to the first of the largest sums. Padding never wins; neither does NaN.
#include "compute/convolution/convolution_shape.h"
#include "compute/copies/elements.h"
#include "compute/elementwise/elementwise.h"
#include "compute/windows/pooling.h"
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

// The least number of the elements' type, in the type that they are computed in: float for those of 16 bits.
template <typename T>
T lowest(DType dtype) {
  if constexpr (std::is_same_v<T, float>) {
    if (dtype == DType::float16) return -65504.0f;
    if (dtype == DType::bfloat16) return -0x1.fep127f;
  }
  return std::numeric_limits<T>::lowest();
}

using Computed = Join<WideFloats, Ints>;
bool is_narrow(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }
// Floats of 16 bits as float32, other tensors as they are.
Tensor computable(const Tensor& t) { return is_narrow(t.dtype()) ? widened(t) : t; }

// The pixels of the input that meet the filter at one place of the output.
template <typename T>
class FilterWindows {
 public:
  FilterWindows(const ConvolutionShape& shape, const Tensor& input, const Tensor& filter, T lowest)
      : s_(shape), depth_(shape.in_channels), input_(input.flat<T>()), filter_(filter.flat<T>()), lowest_(lowest) {}

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
  void largest(int64_t image, int64_t y, int64_t x, T* best) const {
    std::fill_n(best, depth_, lowest_);
    for_each_cell(image, y, x, [&](int64_t from, int64_t with) {
      const T *a = input_ + from * depth_, *b = filter_ + with * depth_;
      for (int64_t c = 0; c < depth_; ++c) {
        const T value = sum<T>(a[c], b[c]);
        best[c] = value > best[c] ? value : best[c];
      }
    });
  }

  // The same, with the pair that each sum comes from; the first pair where no sum wins.
  void winners(int64_t image, int64_t y, int64_t x, T* best, int64_t* pixel, int64_t* element) const {
    std::fill_n(best, depth_, lowest_);
    bool first = true;
    for_each_cell(image, y, x, [&](int64_t from, int64_t with) {
      const T *a = input_ + from * depth_, *b = filter_ + with * depth_;
      for (int64_t c = 0; c < depth_; ++c) {
        const T value = sum<T>(a[c], b[c]);
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
  const T lowest_;
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
    const Tensor input = computable(ctx.input(0)), filter = computable(ctx.input(1));
    Tensor result = is_narrow(out.dtype()) ? Tensor(DType::float32, out.shape()) : out;
    dispatch(result.dtype(), Computed{}, [&]<typename T>() {
      const FilterWindows<T> windows(s, input, filter, lowest<T>(out.dtype()));
      T* to = result.flat<T>();
      parallel_for(rows, std::max<int64_t>(1, kElementGrain / row_work), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row)
          for (int64_t x = 0; x < s.out[2]; ++x)
            windows.largest(row / s.out[1], row % s.out[1], x, to + (row * s.out[2] + x) * s.in_channels);
      });
    });
    if (is_narrow(out.dtype())) narrow_into(result, out);
  }

  ConvolutionAttributes attributes;
};

// The gradient of the input, or of the filter, in one thread: sums are made in a fixed order.
void add_gradients(const ConvolutionShape& s, const Tensor& input, const Tensor& filter, const Tensor& grad,
                   bool of_input, DType dtype, Tensor& total) {
  const int64_t depth = s.in_channels;
  zero_elements(total.dtype(), total.raw(), total.num_elements());
  dispatch(total.dtype(), Computed{}, [&]<typename T>() {
    const FilterWindows<T> windows(s, input, filter, lowest<T>(dtype));
    std::vector<T> best(depth);
    std::vector<int64_t> pixel(depth), element(depth);
    const T* from = grad.flat<T>();
    for (int64_t image = 0; image < s.batch; ++image)
      for (int64_t y = 0; y < s.out[1]; ++y)
        for (int64_t x = 0; x < s.out[2]; ++x, from += depth) {
          std::fill(pixel.begin(), pixel.end(), -1);
          windows.winners(image, y, x, best.data(), pixel.data(), element.data());
          for (int64_t c = 0; c < depth; ++c) {
            if (pixel[c] < 0) continue;
            T& sum_of = total.flat<T>()[(of_input ? pixel[c] : element[c]) * depth + c];
            sum_of = sum<T>(sum_of, from[c]);
          }
        }
  });
}

template <bool kInput>
struct DilationGradient : Dilation {
  using Dilation::Dilation;
  void compute(Context& ctx) override {
    const ConvolutionShape s = shape_of(ctx);
    const Tensor& grad = ctx.input(2);
    attributes.check_gradient(s, grad.shape());
    Tensor& out = ctx.allocate(0, ctx.input(kInput ? 0 : 1).shape());
    const bool narrow = is_narrow(out.dtype());
    Tensor total = narrow ? Tensor(DType::float32, out.shape()) : out;
    add_gradients(s, computable(ctx.input(0)), computable(ctx.input(1)), computable(grad), kInput, out.dtype(), total);
    if (narrow) narrow_into(total, out);
  }
};

REGISTER(kernel("Dilation2D").types("T", Reals{}).make<Dilation>());
REGISTER(kernel("Dilation2DBackpropInput").types("T", Reals{}).make<DilationGradient<true>>());
REGISTER(kernel("Dilation2DBackpropFilter").types("T", Reals{}).make<DilationGradient<false>>());

}  // namespace
}  // namespace thalweg
