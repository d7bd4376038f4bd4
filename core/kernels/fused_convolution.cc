// _FusedConv2D: a convolution and the ops after it, which a pass has fused into one node.
//
// `fused_ops` lists those ops, in order: at most one of BiasAdd (argument: bias) and FusedBatchNorm (scale, offset,
// mean, variance), first; then at most one Add (a tensor like the result), and activations. The arguments come in the
// same order.
#include <cmath>

#include "compute/convolution/convolution_shape.h"
#include "compute/convolution/convolve.h"
#include "compute/copies/elements.h"
#include "compute/weights/filter_cache.h"
#include "executor/interruptible.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

struct FusedConvolution : Kernel {
  explicit FusedConvolution(const Construction& c)
      : attributes(c, 2, false), epsilon(c.attr<float>("epsilon", 1e-4f)), keep(c.attr<bool>("_keep_weights", false)) {
    const auto names = c.attr<std::vector<std::string>>("fused_ops", {});
    int next = 2;
    for (size_t i = 0; i < names.size(); ++i) {
      const std::string& name = names[i];
      if (name == "BiasAdd" && i == 0) {
        bias = next++;
      } else if (name == "FusedBatchNorm" && i == 0) {
        statistics = next;
        next += 4;
      } else if (name == "Add" && addend == 0) {
        addend = next++;
        post_ops.push_back({PostOp::sum});
      } else {
        post_ops.push_back(activation_named(name, c.attr<float>("leakyrelu_alpha", 0.2f)));
      }
    }
    require(c.num_inputs() == next, "fused_ops take ", next - 2, " arguments, got ", c.num_inputs() - 2);
    const DType dtype = c.output_dtype(0);
    require(statistics == 0 || dtype == DType::float32 || dtype == DType::float64,
            "FusedBatchNorm can be fused for float32 and float64, not for ", dtype);
  }

  void compute(Context& ctx) override {
    const Tensor& input = ctx.input(0);
    Tensor filter = ctx.input(1), shift;
    const ConvolutionShape shape = attributes.shape_of(input.shape(), filter.shape());
    const Shape result = attributes.output_of(shape);
    if (bias) shift = per_channel(ctx, bias, shape);
    if (statistics && keep) {
      auto folded = [&] {
        Tensor new_filter = filter, new_shift;
        fold_any(ctx, shape, new_filter, new_shift);
        return std::pair(new_filter, new_shift);
      };
      std::tie(filter, shift) = *cache.folded.get({&ctx.input(1), &ctx.input(statistics), &ctx.input(statistics + 1),
                                                   &ctx.input(statistics + 2), &ctx.input(statistics + 3)},
                                                  {}, folded);
    } else if (statistics) {
      fold_any(ctx, shape, filter, shift);
    }
    const Interruptible interruptible(ctx, multiplications(result, filter.shape()));
    if (addend) {
      const Tensor& added = ctx.input(addend);
      require(added.shape() == result, "the tensor to add must have the shape of the result, ", result, ", got ",
              added.shape());
      Tensor& out = ctx.forward_or_allocate({addend}, 0, result);
      if (out.raw() != added.raw()) copy_large(out.dtype(), out.raw(), added.raw(), out.num_elements());
      run(shape, input, filter, shift, out);
    } else {
      run(shape, input, filter, shift, ctx.allocate(0, result));
    }
  }

  void run(const ConvolutionShape& shape, const Tensor& input, const Tensor& filter, const Tensor& shift, Tensor& out) {
    convolve(ConvolutionPass::forward, out.dtype(), shape, post_ops,
             {input.raw(), filter.raw(), out.raw(), shift.defined() ? shift.raw() : nullptr, keep ? &cache : nullptr,
              &filter},
             attributes.sums());
  }

  void fold_any(Context& ctx, const ConvolutionShape& shape, Tensor& filter, Tensor& shift) const {
    if (filter.dtype() == DType::float32)
      fold<float>(ctx, shape, filter, shift);
    else
      fold<double>(ctx, shape, filter, shift);
  }

  static Tensor per_channel(Context& ctx, int i, const ConvolutionShape& shape) {
    const Tensor& t = ctx.input(i);
    require(t.rank() == 1 && t.dim(0) == shape.out_channels, "argument ", i - 2, " must be a vector of ",
            shape.out_channels, " elements, one per output channel, got shape ", t.shape());
    return t;
  }

  // Normalization with fixed statistics is a factor and a term per channel: the factor goes into the filter.
  template <typename T>
  void fold(Context& ctx, const ConvolutionShape& shape, Tensor& filter, Tensor& shift) const {
    Tensor scale = per_channel(ctx, statistics, shape), offset = per_channel(ctx, statistics + 1, shape);
    Tensor mean = per_channel(ctx, statistics + 2, shape), variance = per_channel(ctx, statistics + 3, shape);
    const int64_t channels = shape.out_channels;
    Tensor factor(filter.dtype(), Shape{channels}), scaled(filter.dtype(), filter.shape());
    shift = Tensor(filter.dtype(), Shape{channels});
    T* by = factor.flat<T>();
    for (int64_t c = 0; c < channels; ++c) {
      by[c] = scale.flat<T>()[c] / std::sqrt(variance.flat<T>()[c] + static_cast<T>(epsilon));
      shift.flat<T>()[c] = offset.flat<T>()[c] - mean.flat<T>()[c] * by[c];
    }
    const T* from = std::as_const(filter).flat<T>();
    T* to = scaled.flat<T>();
    const int64_t rows = channels == 0 ? 0 : filter.num_elements() / channels;
    parallel_for(rows, std::max<int64_t>(1, 32 * 1024 / std::max<int64_t>(1, channels)),
                 [=](int64_t begin, int64_t end) {
                   for (int64_t r = begin; r < end; ++r)
                     for (int64_t c = 0; c < channels; ++c) to[r * channels + c] = from[r * channels + c] * by[c];
                 });
    filter = std::move(scaled);
  }

  ConvolutionAttributes attributes;
  float epsilon;
  bool keep;
  FilterCache cache;
  std::vector<PostOp> post_ops;
  int bias = 0, statistics = 0, addend = 0;  // Where the arguments stand among the inputs; 0: there are none.
};

REGISTER(kernel("_FusedConv2D").types("T", Floats{}).make<FusedConvolution>());

}  // namespace
}  // namespace thalweg
