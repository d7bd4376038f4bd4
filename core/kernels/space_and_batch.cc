// Moving blocks of space into the batch or into the depth, and back: each is one strided copy.
#include "compute/copies/elements.h"
#include "compute/copies/strided_copy.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

struct Blocks {
  std::vector<int64_t> block;          // One size per spatial dimension.
  std::vector<int64_t> before, after;  // Paddings or crops.
  int64_t product = 1;
};

Blocks blocks_of(const std::vector<int64_t>& block, const Tensor& edges, int rank, const char* what) {
  int64_t spatial = static_cast<int64_t>(block.size());
  require(rank >= 1 + spatial, "input rank should be >= ", 1 + spatial, " instead of ", rank);
  require(edges.rank() == 2 && edges.dim(0) == spatial && edges.dim(1) == 2, what, " should have shape [", spatial,
          ", 2] instead of ", edges.shape());
  Blocks b{block, {}, {}, 1};
  std::vector<int64_t> values = to_int64s(edges);
  for (int64_t i = 0; i < spatial; ++i) {
    require(block[i] >= 1, "All values in block_shape must be positive, got value, ", block[i], " at index ", i);
    require(!__builtin_mul_overflow(b.product, block[i], &b.product), "the product of block_shape overflows");
    b.before.push_back(values[2 * i]);
    b.after.push_back(values[2 * i + 1]);
    require(b.before[i] >= 0 && b.after[i] >= 0, what, " must be non-negative: ", b.before[i], ", ", b.after[i],
            " at index ", i);
  }
  return b;
}

// [batch, space..., rest...] -> [block..., batch, space / block..., rest...]
void space_to_batch(Context& ctx, const Blocks& b) {
  const Tensor& in = ctx.input(0);
  int spatial = static_cast<int>(b.block.size()), rank = in.rank();
  std::vector<int64_t> sizes = in.shape().to_vector(), padded = sizes;
  for (int i = 0; i < spatial; ++i) {
    int64_t& size = padded[1 + i];
    require(!__builtin_add_overflow(size, b.before[i], &size) && !__builtin_add_overflow(size, b.after[i], &size),
            "dimension ", 1 + i, " overflows with its paddings");
    require(size % b.block[i] == 0, "padded_shape[", i, "]=", size, " is not divisible by block_shape[", i,
            "]=", b.block[i]);
    sizes[1 + i] = size / b.block[i];
  }
  require(!__builtin_mul_overflow(sizes[0], b.product, &sizes[0]), "the size of the batch overflows");
  Shape shape(sizes), padded_shape(padded);
  Tensor source = in;
  if (padded_shape != in.shape()) {
    source = Tensor(in.dtype(), padded_shape);
    zero_elements(in.dtype(), source.raw(), source.num_elements());
    std::vector<int64_t> from = strides_of(in.shape()), to = strides_of(padded_shape);
    std::vector<CopyDim> dims;
    int64_t offset = 0;
    for (int i = 0; i < rank; ++i) {
      dims.push_back({in.dim(i), from[i], to[i]});
      if (i >= 1 && i <= spatial) offset += b.before[i - 1] * to[i];
    }
    if (in.num_elements() > 0) strided_copy(in.dtype(), in.raw(), element_at(in.dtype(), source.raw(), offset), dims);
  }
  Tensor& out = ctx.allocate(0, shape);
  if (out.num_elements() == 0) return;
  std::vector<int64_t> from = strides_of(padded_shape), to = strides_of(shape);
  std::vector<CopyDim> dims{{in.dim(0), from[0], to[0]}};
  int64_t block_stride = to[0] * in.dim(0);
  for (int i = spatial - 1; i >= 0; --i) {
    dims.push_back({b.block[i], from[1 + i], block_stride});
    dims.push_back({sizes[1 + i], from[1 + i] * b.block[i], to[1 + i]});
    block_stride *= b.block[i];
  }
  for (int i = 1 + spatial; i < rank; ++i) dims.push_back({in.dim(i), from[i], to[i]});
  strided_copy(in.dtype(), source.raw(), out.raw(), dims);
}

// The inverse, with crops in the place of paddings.
void batch_to_space(Context& ctx, const Blocks& b) {
  const Tensor& in = ctx.input(0);
  int spatial = static_cast<int>(b.block.size()), rank = in.rank();
  require(in.dim(0) % b.product == 0, "Input batch dimension (", in.dim(0),
          ") is not divisible by product of block "
          "sizes (",
          b.product, ")");
  std::vector<int64_t> whole = in.shape().to_vector(), sizes;
  whole[0] /= b.product;
  sizes = whole;
  for (int i = 0; i < spatial; ++i) {
    require(!__builtin_mul_overflow(whole[1 + i], b.block[i], &whole[1 + i]), "dimension ", 1 + i, " overflows");
    require(b.before[i] <= whole[1 + i] && b.after[i] <= whole[1 + i] - b.before[i], "cropped_shape[", i,
            "]: the crops ", b.before[i], " and ", b.after[i], " exceed the size ", whole[1 + i]);
    sizes[1 + i] = whole[1 + i] - b.before[i] - b.after[i];
  }
  Shape shape(sizes), whole_shape(whole);
  bool cropped = whole_shape != shape;
  Tensor target(in.dtype(), whole_shape);
  if (target.num_elements() > 0) {
    std::vector<int64_t> from = strides_of(in.shape()), to = strides_of(whole_shape);
    std::vector<CopyDim> dims{{whole[0], from[0], to[0]}};
    int64_t block_stride = from[0] * whole[0];
    for (int i = spatial - 1; i >= 0; --i) {
      dims.push_back({b.block[i], block_stride, to[1 + i]});
      dims.push_back({in.dim(1 + i), from[1 + i], to[1 + i] * b.block[i]});
      block_stride *= b.block[i];
    }
    for (int i = 1 + spatial; i < rank; ++i) dims.push_back({in.dim(i), from[i], to[i]});
    strided_copy(in.dtype(), in.raw(), target.raw(), dims);
  }
  if (!cropped) return ctx.set_output(0, std::move(target));
  Tensor& out = ctx.allocate(0, shape);
  if (out.num_elements() == 0) return;
  std::vector<int64_t> from = strides_of(whole_shape), to = strides_of(shape);
  std::vector<CopyDim> dims;
  int64_t offset = 0;
  for (int i = 0; i < rank; ++i) {
    dims.push_back({sizes[i], from[i], to[i]});
    if (i >= 1 && i <= spatial) offset += b.before[i - 1] * from[i];
  }
  strided_copy(in.dtype(), element_at(in.dtype(), target.raw(), offset), out.raw(), dims);
}

std::vector<int64_t> block_shape_of(const Tensor& t) {
  require(t.rank() == 1, "block_shape must be a vector, got shape ", t.shape());
  return to_int64s(t);
}

void space_to_batch_nd(Context& ctx) {
  space_to_batch(ctx, blocks_of(block_shape_of(ctx.input(1)), ctx.input(2), ctx.input(0).rank(), "paddings"));
}

void batch_to_space_nd(Context& ctx) {
  batch_to_space(ctx, blocks_of(block_shape_of(ctx.input(1)), ctx.input(2), ctx.input(0).rank(), "crops"));
}

// The older ops for images: two spatial dimensions, one block size.
template <void (*move)(Context&, const Blocks&)>
struct SquareBlocks : Kernel {
  explicit SquareBlocks(const Construction& c) : size(c.attr<int64_t>("block_size")) {
    require(size > 1, "Block size should be > 1: ", size);
  }
  void compute(Context& ctx) override {
    require(ctx.input(0).rank() == 4, "Input rank should be: 4, instead of: ", ctx.input(0).rank());
    move(ctx, blocks_of({size, size}, ctx.input(1), 4, "paddings"));
  }
  int64_t size;
};

// Between [height * block, width * block, depth] and [height, width, block * block * depth].
template <bool to_depth>
struct SpaceDepth : Kernel {
  explicit SpaceDepth(const Construction& c)
      : size(c.attr<int64_t>("block_size")), format(c.attr<std::string>("data_format", "NHWC")) {
    require(size > 1, "Block size should be > 1, but was: ", size);
    require(format == "NHWC" || format == "NCHW", "data_format ", format,
            " is not supported on this device: NHWC and "
            "NCHW are");
  }
  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    require(in.rank() == 4, "Input rank should be 4 instead of ", in.rank());
    bool last = format == "NHWC";
    int h = last ? 1 : 2, w = last ? 2 : 3, c = last ? 3 : 1;
    std::vector<int64_t> sizes = in.shape().to_vector();
    int64_t square;
    require(!__builtin_mul_overflow(size, size, &square), "block_size ", size, " is too large");
    if (to_depth) {
      require(in.dim(h) % size == 0 && in.dim(w) % size == 0, "Image width ", in.dim(w), " and height ", in.dim(h),
              " should be divisible by block_size: ", size);
      sizes[h] /= size;
      sizes[w] /= size;
      require(!__builtin_mul_overflow(sizes[c], square, &sizes[c]), "the depth overflows");
    } else {
      require(in.dim(c) % square == 0, "Input depth dimension ", in.dim(c), " should be divisible by: ", square);
      require(!__builtin_mul_overflow(sizes[h], size, &sizes[h]) && !__builtin_mul_overflow(sizes[w], size, &sizes[w]),
              "the height or width overflows");
      sizes[c] /= square;
    }
    Shape shape(sizes);
    Tensor& out = ctx.allocate(0, shape);
    if (out.num_elements() == 0) return;
    // `space` is the side with large images, `depth` the one with many channels.
    const Shape& space = to_depth ? in.shape() : shape;
    const Shape& depth = to_depth ? shape : in.shape();
    std::vector<int64_t> s = strides_of(space), d = strides_of(depth);
    int64_t channels = space[c];
    auto dim = [](int64_t n, int64_t in_space, int64_t in_depth) {
      return to_depth ? CopyDim{n, in_space, in_depth} : CopyDim{n, in_depth, in_space};
    };
    const CopyDim dims[] = {
        dim(in.dim(0), s[0], d[0]),       dim(depth[h], s[h] * size, d[h]),
        dim(depth[w], s[w] * size, d[w]), dim(size, s[h], d[c] * channels * size),
        dim(size, s[w], d[c] * channels), dim(channels, s[c], d[c]),
    };
    strided_copy(in.dtype(), in.raw(), out.raw(), dims);
  }
  int64_t size;
  std::string format;
};

REGISTER(kernel("SpaceToBatchND").function<space_to_batch_nd>());
REGISTER(kernel("BatchToSpaceND").function<batch_to_space_nd>());
REGISTER(kernel("SpaceToBatch").make<SquareBlocks<space_to_batch>>());
REGISTER(kernel("BatchToSpace").make<SquareBlocks<batch_to_space>>());
REGISTER(kernel("SpaceToDepth").make<SpaceDepth<true>>());
REGISTER(kernel("DepthToSpace").make<SpaceDepth<false>>());

}  // namespace
}  // namespace thalweg
