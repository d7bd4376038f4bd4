// Gather, GatherV2 and GatherNd.
#include "compute/copies/gather.h"

#include "kernel/registry.h"

namespace thalweg {
namespace {

void gather_first(Context& ctx) { ctx.set_output(0, gather(ctx.input(0), ctx.input(1), 0, 0)); }

struct GatherV2 : Kernel {
  explicit GatherV2(const Construction& c) : batch_dims(c.attr<int64_t>("batch_dims", 0)) {}
  void compute(Context& ctx) override {
    require(ctx.input(2).rank() == 0, "axis must be scalar, got shape ", ctx.input(2).shape());
    ctx.set_output(0, gather(ctx.input(0), ctx.input(1), to_int64(ctx.input(2)), batch_dims));
  }
  int64_t batch_dims;
};

void gather_tuples(Context& ctx) { ctx.set_output(0, gather_nd(ctx.input(0), ctx.input(1))); }

REGISTER(kernel("Gather").function<gather_first>());
REGISTER(kernel("GatherV2").make<GatherV2>());
REGISTER(kernel("GatherNd").function<gather_tuples>());

}  // namespace
}  // namespace thalweg
