// Slice, StridedSlice and their relatives.
#include <cstring>

#include "compute/copies/elements.h"
#include "compute/copies/slice_spec.h"
#include "kernel/registry.h"
#include "kernel/shaped_kernel.h"

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

struct StridedSlice : Kernel, ShapedKernel {
  explicit StridedSlice(const Construction& c) : masks(c) {}
  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    ctx.set_output(0, read_slice(in, resolve_slice(in.shape(), ctx.input(1), ctx.input(2), ctx.input(3), masks)));
  }
  // Only indices of the first dimensions, as in x[i] and x[i, j].
  std::optional<ShapedWork> for_shapes(std::span<const ShapedOperand> x) const override {
    const Shape &shape = x[0].shape, &indices = x[1].shape;
    if (x.size() != 4 || indices.rank() != 1 || indices[0] == 0 || indices[0] > shape.rank()) return std::nullopt;
    const auto count = static_cast<int>(indices[0]);
    if (masks.shrink_axis != (int64_t{1} << count) - 1 || masks.begin != 0 || masks.ellipsis != 0 ||
        masks.new_axis != 0 || !x[3].constant.defined() || !(x[3].shape == indices) || x[1].dtype != DType::int32)
      return std::nullopt;
    for (int64_t stride : to_int64s(x[3].constant))
      if (stride != 1) return std::nullopt;
    Shape result = shape;
    std::vector<int64_t> sizes;
    for (int d = 0; d < count; ++d) {
      sizes.push_back(result[0]);
      result = result.removed(0);
    }
    const size_t bytes = static_cast<size_t>(result.num_elements()) * size_of(x[0].dtype);
    return ShapedWork{result, [sizes, bytes](const void* const* from, void* to) {
                        const auto* index = static_cast<const int32_t*>(from[1]);
                        int64_t row = 0;
                        for (size_t d = 0; d < sizes.size(); ++d) {
                          const int64_t i = index[d] < 0 ? index[d] + sizes[d] : index[d];
                          require(i >= 0 && i < sizes[d], "slice index ", index[d], " is out of bounds");
                          row = row * sizes[d] + i;
                        }
                        std::memcpy(to, static_cast<const char*>(from[0]) + static_cast<size_t>(row) * bytes, bytes);
                      }};
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
