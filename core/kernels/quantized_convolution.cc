// QuantizedConv2D: a convolution of 8-bit integers that stand for ranges of real numbers, with sums of 32 bits.
#include <cmath>

#include "compute/convolution/convolution_shape.h"
#include "compute/convolution/convolve.h"
#include "compute/elementwise/elementwise.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

using Bytes = Types<DType::quint8, DType::qint8>;

struct QuantizedConvolution : Kernel {
  explicit QuantizedConvolution(const Construction& c) : attributes(c, 2, false) {}

  struct Range {
    double low, high;
    // The real number of one step of 8 bits.
    double step() const { return (high - low) / 255; }
  };
  static Range range(Context& ctx, int i, const char* what) {
    const float low = ctx.input(i).item<float>(), high = ctx.input(i + 1).item<float>();
    require(std::isfinite(low) && std::isfinite(high) && low <= high, "the range of ", what,
            " must be finite and in order, got [", low, ", ", high, "]");
    return {low, high};
  }

  // The integers less the one that stands for zero, so that padding with zeros is padding with zero.
  static Tensor centred(const Tensor& t, const Range& range) {
    Tensor out(DType::int32, t.shape());
    dispatch(t.dtype(), Bytes{}, [&]<typename T>() {
      const double zero = range.high == range.low ? 0 : -std::round(range.low / range.step());
      // Far outside of the range the integer for zero does not fit; the sums below then wrap around.
      const uint32_t shift = static_cast<uint32_t>(static_cast<int64_t>(std::clamp(zero, -1e9, 1e9))) +
                             static_cast<uint32_t>(std::numeric_limits<T>::lowest());
      const T* from = t.flat<T>();
      int32_t* to = out.flat<int32_t>();
      parallel_for(t.num_elements(), kElementGrain, [=](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          to[i] = static_cast<int32_t>(static_cast<uint32_t>(static_cast<int32_t>(from[i])) - shift);
      });
    });
    return out;
  }

  void compute(Context& ctx) override {
    const ConvolutionShape shape = attributes.shape_of(ctx.input(0).shape(), ctx.input(1).shape());
    const Range in = range(ctx, 2, "input"), by = range(ctx, 4, "filter");
    Tensor input = centred(ctx.input(0), in), filter = centred(ctx.input(1), by);
    Tensor& out = ctx.allocate(0, attributes.output_of(shape));
    convolve(ConvolutionPass::forward, DType::int32, shape, {}, {input.raw(), filter.raw(), out.raw()});
    const double step = in.step() * by.step();
    ctx.set_output(1, Tensor::scalar(static_cast<float>(step * std::numeric_limits<int32_t>::lowest())));
    ctx.set_output(2, Tensor::scalar(static_cast<float>(step * std::numeric_limits<int32_t>::max())));
  }

  ConvolutionAttributes attributes;
};

REGISTER(kernel("QuantizedConv2D")
             .types("Tinput", Bytes{})
             .types("Tfilter", Bytes{})
             .types("out_type", Types<DType::qint32>{})
             .make<QuantizedConvolution>());

}  // namespace
}  // namespace thalweg
