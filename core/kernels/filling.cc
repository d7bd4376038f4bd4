// Fill, ZerosLike, OnesLike, and ops that repeat elements: Tile and BroadcastTo.
#include "compute/copies/elements.h"
#include "compute/copies/strided_copy.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

Shape shape_from(const Tensor& sizes, const char* what) {
  require(sizes.rank() == 1, what, " must be a vector, got shape ", sizes.shape());
  return Shape(to_int64s(sizes));
}

void fill(Context& ctx) {
  const Tensor& value = ctx.input(1);
  require(value.num_elements() == 1, "value must be a scalar, got shape ", value.shape());
  Tensor& out = ctx.allocate(0, shape_from(ctx.input(0), "dims"));
  fill_elements(out.dtype(), out.raw(), value.raw(), out.num_elements());
}

void zeros_like(Context& ctx) {
  Tensor& out = ctx.forward_or_allocate({0}, 0, ctx.input(0).shape());
  zero_elements(out.dtype(), out.raw(), out.num_elements());
}

void ones_like(Context& ctx) {
  Tensor& out = ctx.forward_or_allocate({0}, 0, ctx.input(0).shape());
  dispatch(out.dtype(), NumbersAndBool{}, [&]<typename T>() {
    const T one = T(1);
    fill_elements(out.dtype(), out.raw(), &one, out.num_elements());
  });
}

void tile(Context& ctx) {
  const Tensor& in = ctx.input(0);
  const Tensor& multiples = ctx.input(1);
  require(multiples.rank() == 1, "Expected multiples to be 1-D, but got shape ", multiples.shape());
  require(multiples.num_elements() == in.rank(), "Expected multiples argument to be a vector of length ", in.rank(),
          " but got length ", multiples.num_elements());
  std::vector<int64_t> repeats = to_int64s(multiples), sizes(in.rank());
  for (int i = 0; i < in.rank(); ++i) {
    require(repeats[i] >= 0, "Expected multiples[", i, "] >= 0, but got ", repeats[i]);
    require(!__builtin_mul_overflow(repeats[i], in.dim(i), &sizes[i]), "multiples[", i, "] = ", repeats[i],
            " times the size ", in.dim(i), " overflows");
  }
  Shape shape(sizes);
  if (shape == in.shape()) {
    ctx.set_output(0, in);
    return;
  }
  Tensor& out = ctx.allocate(0, shape);
  if (out.num_elements() == 0) return;
  std::vector<int64_t> from = strides_of(in.shape()), to = strides_of(shape);
  std::vector<CopyDim> dims;
  for (int i = 0; i < in.rank(); ++i) {
    dims.push_back({repeats[i], 0, to[i] * in.dim(i)});
    dims.push_back({in.dim(i), from[i], to[i]});
  }
  strided_copy(in.dtype(), in.raw(), out.raw(), dims);
}

void broadcast_to(Context& ctx) {
  const Tensor& in = ctx.input(0);
  Shape shape = shape_from(ctx.input(1), "shape");
  int leading = shape.rank() - in.rank();
  require(leading >= 0, "Rank of input (", in.rank(), ") must be no greater than rank of output shape (", shape.rank(),
          ").");
  for (int i = 0; i < in.rank(); ++i)
    require(in.dim(i) == 1 || in.dim(i) == shape[leading + i], "Incompatible shapes: ", in.shape(), " vs. ", shape);
  if (shape.num_elements() == in.num_elements()) {
    ctx.set_output(0, in.reshaped(shape));
    return;
  }
  Tensor& out = ctx.allocate(0, shape);
  if (out.num_elements() == 0) return;
  std::vector<int64_t> from = strides_of(in.shape()), to = strides_of(shape);
  std::vector<CopyDim> dims;
  for (int i = 0; i < shape.rank(); ++i) {
    bool repeats = i < leading || in.dim(i - leading) == 1;
    dims.push_back({shape[i], repeats ? 0 : from[i - leading], to[i]});
  }
  strided_copy(in.dtype(), in.raw(), out.raw(), dims);
}

REGISTER(kernel("Fill").function<fill>());
// Variants have kernels of their own: zeros depend on what they hold.
using NoVariants = Join<Join<NumbersAndBool, Quantized>, Types<DType::string, DType::resource>>;
REGISTER(kernel("ZerosLike").types("T", NoVariants{}).function<zeros_like>());
REGISTER(kernel("OnesLike").types("T", NumbersAndBool{}).function<ones_like>());
REGISTER(kernel("Tile").function<tile>());
REGISTER(kernel("BroadcastTo").function<broadcast_to>());

}  // namespace
}  // namespace thalweg
