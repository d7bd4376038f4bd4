// ScatterNd and TensorScatter*.
#include "compute/copies/scatter.h"

#include "compute/copies/elements.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

void scatter_new(Context& ctx) {
  const Tensor& sizes = ctx.input(2);
  require(sizes.rank() == 1, "shape must be a vector, got shape ", sizes.shape());
  Tensor& out = ctx.allocate(0, Shape(to_int64s(sizes)));
  zero_elements(out.dtype(), out.raw(), out.num_elements());
  // Updates are added to zeros, so that repeated indices add up.
  scatter_nd(out.dtype() == DType::string ? Combine::assign : Combine::add, out, ctx.input(0), ctx.input(1));
}

template <Combine how>
void tensor_scatter(Context& ctx) {
  Tensor out = ctx.input(0).writable() ? ctx.take_input(0) : ctx.input(0).clone();
  scatter_nd(how, out, ctx.input(1), ctx.input(2));
  ctx.set_output(0, std::move(out));
}

REGISTER(kernel("ScatterNd").function<scatter_new>());
REGISTER(kernel("ScatterNdNonAliasingAdd").function<tensor_scatter<Combine::add>>());
REGISTER(kernel("TensorScatterUpdate").function<tensor_scatter<Combine::assign>>());
REGISTER(kernel("TensorScatterAdd").function<tensor_scatter<Combine::add>>());
REGISTER(kernel("TensorScatterSub").function<tensor_scatter<Combine::sub>>());
REGISTER(kernel("TensorScatterMin").function<tensor_scatter<Combine::min>>());
REGISTER(kernel("TensorScatterMax").function<tensor_scatter<Combine::max>>());

}  // namespace
}  // namespace thalweg
