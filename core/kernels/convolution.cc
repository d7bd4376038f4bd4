// Conv2D, Conv3D and DepthwiseConv2dNative, and the gradients of their inputs and filters.
#include "compute/convolution/convolution_shape.h"
#include "compute/convolution/convolve.h"
#include "compute/weights/filter_cache.h"
#include "executor/interruptible.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

void* data_of(const Tensor& t) { return t.raw(); }

template <int kSpatial, bool kDepthwise>
struct Convolution : Kernel {
  explicit Convolution(const Construction& c)
      : attributes(c, kSpatial, kDepthwise), keep(c.attr<bool>("_keep_weights", false)) {}
  void compute(Context& ctx) override {
    const Tensor &input = ctx.input(0), &filter = ctx.input(1);
    const ConvolutionShape shape = attributes.shape_of(input.shape(), filter.shape());
    Tensor& out = ctx.allocate(0, attributes.output_of(shape));
    const Interruptible interruptible(ctx, multiplications(out.shape(), filter.shape()));
    convolve(ConvolutionPass::forward, out.dtype(), shape, {},
             {data_of(input), data_of(filter), data_of(out), nullptr, keep ? &cache : nullptr, &filter},
             attributes.sums());
  }
  ConvolutionAttributes attributes;
  bool keep;
  FilterCache cache;
};

// `kTensor`: the first input is a tensor of the wanted shape, not the shape as a vector.
template <int kSpatial, bool kDepthwise, bool kTensor = false>
struct InputGradient : Kernel {
  explicit InputGradient(const Construction& c) : attributes(c, kSpatial, kDepthwise) {}
  void compute(Context& ctx) override {
    const Tensor &filter = ctx.input(1), &grad = ctx.input(2);
    const Shape sizes =
        kTensor ? ctx.input(0).shape() : attributes.input_sizes(ctx.input(0), filter.shape(), grad.shape());
    const ConvolutionShape shape = attributes.shape_of(sizes, filter.shape());
    attributes.check_gradient(shape, grad.shape());
    Tensor& out = ctx.allocate(0, sizes);
    const Interruptible interruptible(ctx, multiplications(grad.shape(), filter.shape()));
    convolve(ConvolutionPass::input_gradient, out.dtype(), shape, {}, {data_of(out), data_of(filter), data_of(grad)},
             attributes.sums());
  }
  ConvolutionAttributes attributes;
};

template <int kSpatial, bool kDepthwise, bool kTensor = false>
struct FilterGradient : Kernel {
  explicit FilterGradient(const Construction& c) : attributes(c, kSpatial, kDepthwise) {}
  void compute(Context& ctx) override {
    const Tensor &input = ctx.input(0), &grad = ctx.input(2);
    const Shape sizes = kTensor ? ctx.input(1).shape() : attributes.filter_sizes(ctx.input(1));
    const ConvolutionShape shape = attributes.shape_of(input.shape(), sizes);
    attributes.check_gradient(shape, grad.shape());
    Tensor& out = ctx.allocate(0, sizes);
    const Interruptible interruptible(ctx, multiplications(grad.shape(), sizes));
    convolve(ConvolutionPass::filter_gradient, out.dtype(), shape, {}, {data_of(input), data_of(out), data_of(grad)},
             attributes.sums());
  }
  ConvolutionAttributes attributes;
};

using FloatsAndInt = Join<Floats, Types<DType::int32>>;

REGISTER(kernel("Conv2D").types("T", FloatsAndInt{}).make<Convolution<2, false>>());
REGISTER(kernel("Conv2DBackpropInput").types("T", FloatsAndInt{}).make<InputGradient<2, false>>());
REGISTER(kernel("Conv2DBackpropFilter").types("T", Floats{}).make<FilterGradient<2, false>>());

REGISTER(kernel("DepthwiseConv2dNative").types("T", Floats{}).make<Convolution<2, true>>());
REGISTER(kernel("DepthwiseConv2dNativeBackpropInput").types("T", Floats{}).make<InputGradient<2, true>>());
REGISTER(kernel("DepthwiseConv2dNativeBackpropFilter").types("T", Floats{}).make<FilterGradient<2, true>>());

REGISTER(kernel("Conv3D").types("T", Floats{}).make<Convolution<3, false>>());
REGISTER(kernel("Conv3DBackpropInput").types("T", Floats{}).make<InputGradient<3, false, true>>());
REGISTER(kernel("Conv3DBackpropInputV2").types("T", Floats{}).make<InputGradient<3, false>>());
REGISTER(kernel("Conv3DBackpropFilter").types("T", Floats{}).make<FilterGradient<3, false, true>>());
REGISTER(kernel("Conv3DBackpropFilterV2").types("T", Floats{}).make<FilterGradient<3, false>>());

}  // namespace
}  // namespace thalweg
