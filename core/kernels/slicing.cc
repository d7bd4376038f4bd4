// Slice, StridedSlice and their relatives.
#include "compute/copies/elements.h"
#include "compute/copies/slice_spec.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

void slice(Context& ctx) {
  const Tensor& in = ctx.input(0);
  const Tensor& begin_tensor = ctx.input(1);
  const Tensor& size_tensor = ctx.input(2);
  require(begin_tensor.rank() == 1 && begin_tensor.shape() == size_tensor.shape() &&
              begin_tensor.num_elements() == in.rank(),
          "Expected begin and size arguments to be 1-D tensors of size ", in.rank(), ", but got shapes ",
          begin_tensor.shape(), " and ", size_tensor.shape(), " instead.");
  std::vector<int64_t> begin = to_int64s(begin_tensor), size = to_int64s(size_tensor);
  SliceBox box;
  box.stride = strides_of(in.shape());
  for (int i = 0; i < in.rank(); ++i) {
    int64_t most = in.dim(i);
    require(begin[i] >= 0 && begin[i] <= most, "Expected begin[", i, "] in [0, ", most, "], but got ", begin[i]);
    if (size[i] == -1) size[i] = most - begin[i];
    require(size[i] >= 0 && size[i] <= most - begin[i], "Expected size[", i, "] in [0, ", most - begin[i],
            "], but got ", size[i]);
    box.offset += begin[i] * box.stride[i];
  }
  box.shape = Shape(size);
  box.count = box.shape.num_elements();
  box.sizes = std::move(size);
  ctx.set_output(0, box.shape == in.shape() ? in : read_slice(in, box));
}

struct StridedSlice : Kernel {
  explicit StridedSlice(const Construction& c) : masks(c) {}
  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    ctx.set_output(0, read_slice(in, resolve_slice(in.shape(), ctx.input(1), ctx.input(2), ctx.input(3), masks)));
  }
  SliceMasks masks;
};

struct StridedSliceGrad : Kernel {
  explicit StridedSliceGrad(const Construction& c) : masks(c) {}
  void compute(Context& ctx) override {
    require(ctx.input(0).rank() == 1, "shape must be 1-D, got shape ", ctx.input(0).shape());
    Shape shape(to_int64s(ctx.input(0)));
    SliceBox box = resolve_slice(shape, ctx.input(1), ctx.input(2), ctx.input(3), masks);
    const Tensor& grad = ctx.input(4);
    require(grad.shape() == box.shape, "shape of dy was ", grad.shape(), " instead of ", box.shape);
    if (box.count == shape.num_elements() && box.contiguous()) return ctx.set_output(0, grad.reshaped(shape));
    Tensor& out = ctx.allocate(0, shape);
    zero_elements(out.dtype(), out.raw(), out.num_elements());
    write_slice(out, box, grad);
  }
  SliceMasks masks;
};

struct TensorStridedSliceUpdate : Kernel {
  explicit TensorStridedSliceUpdate(const Construction& c) : masks(c) {}
  void compute(Context& ctx) override {
    SliceBox box = resolve_slice(ctx.input(0).shape(), ctx.input(1), ctx.input(2), ctx.input(3), masks);
    Tensor out = ctx.input(0).writable() ? ctx.take_input(0) : ctx.input(0).clone();
    write_slice(out, box, ctx.input(4));
    ctx.set_output(0, std::move(out));
  }
  SliceMasks masks;
};

REGISTER(kernel("Slice").function<slice>());
REGISTER(kernel("StridedSlice").make<StridedSlice>());
REGISTER(kernel("StridedSliceGrad").make<StridedSliceGrad>());
REGISTER(kernel("TensorStridedSliceUpdate").make<TensorStridedSliceUpdate>());

}  // namespace
}  // namespace thalweg
