// The ops on barriers. Graphs have them on references; passes/references.py puts these in their place.
#include "resource/barrier.h"

#include "executor/step.h"
#include "kernel/completion.h"
#include "kernel/handle_kernel.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

struct Create : HandleKernel<Barrier> {
  explicit Create(const Construction& c) : HandleKernel(c) {
    options.name = name();
    options.dtypes = c.attr<std::vector<DType>>("component_types");
    options.shapes = c.attr<std::vector<PartialShape>>("shapes", {});
    require(!options.dtypes.empty(), "a barrier must have at least one component");
    require(options.shapes.empty() || options.shapes.size() == options.dtypes.size(), "a barrier with ",
            options.dtypes.size(), " components must be given as many shapes, got ", options.shapes.size());
    require(c.attr<int64_t>("capacity", -1) == -1, "Barrier only accepts capacity=-1.  Feed the inputs to your ",
            "Barrier through a queue to enforce a limited capacity.");
    prepare(c);
  }
  std::shared_ptr<Barrier> make() const override { return std::make_shared<Barrier>(options); }
  void check(const Barrier& found) const override {
    require(found.options().dtypes == options.dtypes, "Shared barrier '", name(),
            "' has other component types than this node declares");
  }
  Barrier::Options options;
};

struct InsertMany : Kernel {
  explicit InsertMany(const Construction& c) : component(c.attr<int64_t>("component_index")) {}
  void compute(Context& ctx) override { ctx.resource<Barrier>(0).insert_many(component, ctx.input(1), ctx.input(2)); }
  int64_t component;
};

struct TakeMany : AsyncKernel {
  explicit TakeMany(const Construction& c) : allow_small_batch(c.attr<bool>("allow_small_batch", false)) {
    require(c.attr<int64_t>("timeout_ms", -1) == -1, "Timeout not supported yet.");
  }
  void start(std::shared_ptr<AsyncContext> ctx) override {
    auto& barrier = ctx->resource<Barrier>(0);
    const std::vector<DType>& declared = ctx->def().output_dtypes;
    const std::vector<DType>& held = barrier.options().dtypes;
    require(std::equal(held.begin(), held.end(), declared.begin() + 2, declared.end()), "barrier '",
            barrier.options().name, "' has other component types than this op expects");
    require(ctx->input(1).rank() == 0, "num_elements must be a scalar, got shape ", ctx->input(1).shape());
    int64_t count = to_int64(ctx->input(1));
    Cancellation& cancellation = ctx->step().cancellation();
    barrier.take_many(count, allow_small_batch, cancellation, completion_with_outputs(std::move(ctx)));
  }
  bool allow_small_batch;
};

struct Close : Kernel {
  explicit Close(const Construction& c) : cancel_pending(c.attr<bool>("cancel_pending_enqueues", false)) {}
  void compute(Context& ctx) override { ctx.resource<Barrier>(0).close(cancel_pending); }
  bool cancel_pending;
};

void ready_size(Context& ctx) {
  ctx.set_output(0, Tensor::scalar(static_cast<int32_t>(ctx.resource<Barrier>(0).ready_size())));
}
void incomplete_size(Context& ctx) {
  ctx.set_output(0, Tensor::scalar(static_cast<int32_t>(ctx.resource<Barrier>(0).incomplete_size())));
}

REGISTER(kernel("_ResourceBarrier").make<Create>());
REGISTER(kernel("_ResourceBarrierInsertMany").make<InsertMany>());
REGISTER(kernel("_ResourceBarrierTakeMany").make<TakeMany>());
REGISTER(kernel("_ResourceBarrierClose").make<Close>());
REGISTER(kernel("_ResourceBarrierReadySize").function<ready_size>());
REGISTER(kernel("_ResourceBarrierIncompleteSize").function<incomplete_size>());

}  // namespace
}  // namespace thalweg
