// Conditional accumulators: the ops that make them, apply gradients to them and take their mean or sum.
#include "executor/step.h"
#include "kernel/completion.h"
#include "kernel/handle_kernel.h"
#include "kernel/registry.h"
#include "resource/accumulator.h"

namespace thalweg {
namespace {

template <typename A>
struct Create : HandleKernel<A> {
  explicit Create(const Construction& c) : HandleKernel<A>(c) {
    options.name = this->name();
    options.dtype = c.attr<DType>("dtype");
    options.shape = c.attr<PartialShape>("shape");
    auto reduction = c.attr<std::string>("reduction_type", "MEAN");
    require(reduction == "MEAN" || reduction == "SUM", "reduction_type must be MEAN or SUM, got ", reduction);
    options.mean = reduction == "MEAN";
    this->prepare(c);
  }
  std::shared_ptr<A> make() const override { return std::make_shared<A>(options); }
  void check(const A& found) const override {
    const Accumulator::Options& have = found.options();
    require(have.dtype == options.dtype, "Shared conditional accumulator '", options.name, "' has type ", have.dtype,
            " but requested type was ", options.dtype);
    require(have.shape.str() == options.shape.str(), "Shared conditional accumulator '", options.name, "' has shape ",
            have.shape, " but requested shape was ", options.shape);
    require(have.mean == options.mean, "Shared conditional accumulator '", options.name,
            "' has another reduction type than the requested one, ", options.mean ? "MEAN" : "SUM");
  }
  Accumulator::Options options;
};

int64_t scalar(const Tensor& t, const char* what) {
  require(t.rank() == 0, what, " must be a scalar, got shape ", t.shape());
  return to_int64(t);
}

void check_dtype(const Accumulator& accumulator, DType dtype) {
  require(accumulator.options().dtype == dtype, "accumulator '", accumulator.options().name, "' has type ",
          accumulator.options().dtype, ", the gradient has ", dtype);
}

// The step of a gradient and, if the tensor is [step, contributor], the number of its contributor.
void apply(Accumulator& accumulator, const Tensor& local_step, Accumulator::Gradient gradient) {
  if (local_step.rank() == 0) return accumulator.apply(to_int64(local_step), std::move(gradient));
  require(local_step.shape() == Shape{2},
          "local_step must be a scalar, or a vector of step and contributor, got shape ", local_step.shape());
  const int64_t* both = local_step.flat<int64_t>();
  accumulator.apply(both[0], std::move(gradient), both[1]);
}

void apply_dense(Context& ctx) {
  auto& accumulator = ctx.resource<DenseAccumulator>(0);
  check_dtype(accumulator, ctx.input(2).dtype());
  apply(accumulator, ctx.input(1), {ctx.take_input(2)});
}

struct ApplySparse : Kernel {
  explicit ApplySparse(const Construction& c) : has_known_shape(c.attr<bool>("has_known_shape")) {}
  void compute(Context& ctx) override {
    auto& accumulator = ctx.resource<SparseAccumulator>(0);
    check_dtype(accumulator, ctx.input(3).dtype());
    Accumulator::Gradient gradient{ctx.input(2), ctx.input(3)};
    if (has_known_shape) gradient.push_back(ctx.input(4));
    apply(accumulator, ctx.input(1), std::move(gradient));
  }
  bool has_known_shape;
};

template <typename A>
struct Take : AsyncKernel {
  explicit Take(const Construction&) {}
  void start(std::shared_ptr<AsyncContext> ctx) override {
    auto& accumulator = ctx->resource<A>(0);
    check_dtype(accumulator, ctx->output_dtype(std::is_same_v<A, DenseAccumulator> ? 0 : 1));
    int64_t required = scalar(ctx->input(1), "num_required");
    Cancellation& cancellation = ctx->step().cancellation();
    accumulator.take(required, cancellation, completion_with_outputs(std::move(ctx)));
  }
};

void count(Context& ctx) {
  ctx.set_output(0, Tensor::scalar(static_cast<int32_t>(ctx.resource<Accumulator>(0).count())));
}
void set_global_step(Context& ctx) {
  const Tensor& step = ctx.input(1);
  require(step.rank() == 0 || step.shape() == Shape{1},
          "new_global_step must be a scalar, or a vector of one, got shape ", step.shape());
  ctx.resource<Accumulator>(0).set_global_step(step.flat<int64_t>()[0], step.rank() == 1);
}

REGISTER(kernel("ResourceConditionalAccumulator").make<Create<DenseAccumulator>>());
REGISTER(kernel("ResourceAccumulatorApplyGradient").function<apply_dense>());
REGISTER(kernel("ResourceAccumulatorTakeGradient").make<Take<DenseAccumulator>>());
REGISTER(kernel("ResourceAccumulatorNumAccumulated").function<count>());
REGISTER(kernel("ResourceAccumulatorSetGlobalStep").function<set_global_step>());
REGISTER(kernel("_ResourceSparseConditionalAccumulator").make<Create<SparseAccumulator>>());
REGISTER(kernel("_ResourceSparseAccumulatorApplyGradient").make<ApplySparse>());
REGISTER(kernel("_ResourceSparseAccumulatorTakeGradient").make<Take<SparseAccumulator>>());

}  // namespace
}  // namespace thalweg
