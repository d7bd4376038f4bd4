// Joining tensors and taking them apart: Concat, Pack, Split, Unpack.
#include "compute/copies/elements.h"
#include "compute/copies/strided_copy.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

// Copies rows of `inner` elements, `outer` of them, between matrices of other row lengths.
void copy_columns(DType dtype, const void* from, int64_t from_row, void* to, int64_t to_row, int64_t outer,
                  int64_t inner) {
  const CopyDim dims[] = {{outer, from_row, to_row}, {inner, 1, 1}};
  strided_copy(dtype, from, to, dims);
}

// Row after row of the result, from all inputs in turn: memory is written in order.
void join_rows(Context& ctx, int first, int count, int64_t outer, Tensor& out) {
  struct Part {
    const char* from;
    size_t bytes;  // of a row
  };
  std::vector<Part> parts;
  for (int i = first; i < first + count; ++i)
    if (const Tensor& in = ctx.input(i); in.num_elements() > 0)
      parts.push_back({static_cast<const char*>(in.raw()), in.bytes() / static_cast<size_t>(outer)});
  char* to = static_cast<char*>(out.raw());
  const size_t row_bytes = out.bytes() / static_cast<size_t>(outer);
  parallel_for(outer, std::max<int64_t>(1, kMoveGrain / static_cast<int64_t>(row_bytes)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) {
                   char* at = to + row * static_cast<int64_t>(row_bytes);
                   for (const Part& part : parts) {
                     std::memcpy(at, part.from + row * static_cast<int64_t>(part.bytes), part.bytes);
                     at += part.bytes;
                   }
                 }
               });
}

// One row: the inputs stand one after another. Most are small, often scalars, and copied without more ado.
void join_one_row(Context& ctx, int first, int count, Tensor& out) {
  char* to = static_cast<char*>(out.raw());
  for (int i = first; i < first + count; ++i) {
    const Tensor& in = ctx.input(i);
    const int64_t bytes = static_cast<int64_t>(in.bytes()), size = in.num_elements();
    if (bytes > kMoveGrain)
      copy_columns(in.dtype(), in.raw(), size, to, size, 1, size);
    else if (bytes > 0)
      std::memcpy(to, in.raw(), static_cast<size_t>(bytes));
    to += bytes;
  }
}

void join(Context& ctx, int first, int count, int axis, const Shape& shape) {
  Tensor& out = ctx.allocate(0, shape);
  if (out.num_elements() == 0) return;
  int64_t outer = shape.product(0, axis), to_row = shape.product(axis, shape.rank());
  if (outer == 1 && is_plain(out.dtype())) return join_one_row(ctx, first, count, out);
  // Pieces of a few bytes are copied by loops that know their length.
  constexpr int64_t kShortest = 32;
  const int64_t piece = static_cast<int64_t>(out.bytes()) / outer / count;
  if (outer > 1 && piece >= kShortest && is_plain(out.dtype())) return join_rows(ctx, first, count, outer, out);
  int64_t at = 0;
  for (int i = first; i < first + count; ++i) {
    const Tensor& in = ctx.input(i);
    if (in.num_elements() == 0) continue;
    int64_t row = in.num_elements() / outer;
    copy_columns(in.dtype(), in.raw(), row, element_at(in.dtype(), out.raw(), at), to_row, outer, row);
    at += row;
  }
}

void concat_along(Context& ctx, int first, int count, const Tensor& axis_tensor) {
  require(axis_tensor.num_elements() == 1, "Concat dim tensor should be a scalar integer, but got shape ",
          axis_tensor.shape());
  const Shape& shape = ctx.input(first).shape();
  int64_t axis_value = to_int64(axis_tensor);
  require(shape.rank() > 0, "concat cannot join scalars; use stack");
  require(axis_value >= -shape.rank() && axis_value < shape.rank(),
          "ConcatOp : Expected concatenating dimensions in the range [", -shape.rank(), ", ", shape.rank(),
          "), but got ", axis_value);
  int axis = static_cast<int>(axis_value < 0 ? axis_value + shape.rank() : axis_value);
  int64_t total = 0;
  for (int i = first; i < first + count; ++i) {
    const Shape& each = ctx.input(i).shape();
    require(each.rank() == shape.rank(), "ConcatOp : Ranks of all input tensors should match: shape[0] = ", shape,
            " vs. shape[", i - first, "] = ", each);
    for (int d = 0; d < shape.rank(); ++d)
      require(d == axis || each[d] == shape[d], "ConcatOp : Dimensions of inputs should match: shape[0] = ", shape,
              " vs. shape[", i - first, "] = ", each);
    require(!__builtin_add_overflow(total, each[axis], &total), "the sizes along dimension ", axis, " overflow");
  }
  if (count == 1) return ctx.set_output(0, ctx.input(first));
  join(ctx, first, count, axis, shape.with_dim(axis, total));
}

void concat(Context& ctx) { concat_along(ctx, 1, ctx.num_inputs() - 1, ctx.input(0)); }

void concat_v2(Context& ctx) {
  int count = ctx.num_inputs() - 1;
  concat_along(ctx, 0, count, ctx.input(count));
}

struct ParallelConcat : Kernel {
  explicit ParallelConcat(const Construction& c) : shape(c.attr<PartialShape>("shape")) {}
  void compute(Context& ctx) override {
    for (int i = 0; i < ctx.num_inputs(); ++i)
      require(ctx.input(i).rank() > 0 && ctx.input(i).dim(0) == 1, "Size of first dimension must be 1 for value ", i,
              ", got shape ", ctx.input(i).shape());
    concat_along(ctx, 0, ctx.num_inputs(), Tensor::scalar<int32_t>(0));
    Shape whole = ctx.input(0).shape().with_dim(0, ctx.num_inputs());
    require(shape.accepts(whole), "the values have shape ", whole, " together, attribute shape is ", shape);
  }
  PartialShape shape;
};

struct Pack : Kernel {
  explicit Pack(const Construction& c) : axis(c.attr<int64_t>("axis", 0)) {}
  void compute(Context& ctx) override {
    const Shape& shape = ctx.input(0).shape();
    int rank = shape.rank() + 1;
    require(axis >= -rank && axis < rank, "axis = ", axis, " not in [", -rank, ", ", rank, ")");
    for (int i = 1; i < ctx.num_inputs(); ++i)
      require(ctx.input(i).shape() == shape, "Shapes of all inputs must match: values[0].shape = ", shape,
              " != values[", i, "].shape = ", ctx.input(i).shape());
    int at = static_cast<int>(axis < 0 ? axis + rank : axis);
    Shape packed = shape.inserted(at, ctx.num_inputs());
    if (ctx.num_inputs() == 1) return ctx.set_output(0, ctx.input(0).reshaped(packed));
    join(ctx, 0, ctx.num_inputs(), at, packed);
  }
  int64_t axis;
};

// Output i gets the part [offset, offset + size) along an axis. Parts along the outermost one share the buffer.
void take_part(Context& ctx, int i, const Tensor& in, int axis, int64_t offset, int64_t size, const Shape& shape) {
  int64_t outer = in.shape().product(0, axis);
  if (outer == 1 && in.num_elements() > 0) {
    int64_t inner = in.shape().product(axis + 1, in.rank());
    Tensor flat = in.reshaped(Shape{in.dim(axis), inner});
    return ctx.set_output(i, flat.rows(offset, size).reshaped(shape));
  }
  Tensor& out = ctx.allocate(i, shape);
  if (out.num_elements() == 0) return;
  int64_t inner = in.shape().product(axis + 1, in.rank()), row = inner * in.dim(axis);
  copy_columns(in.dtype(), element_at(in.dtype(), static_cast<const void*>(in.raw()), offset * inner), row, out.raw(),
               size * inner, outer, size * inner);
}

// Row after row of the input, to all outputs in turn: memory is read in order. sizes[i] is that of output i along the
// axis.
void take_parts(Context& ctx, const Tensor& in, int axis, std::span<const int64_t> sizes, bool drop_axis) {
  const auto shape_of = [&](int64_t size) {
    return drop_axis ? in.shape().removed(axis) : in.shape().with_dim(axis, size);
  };
  const int64_t outer = in.shape().product(0, axis), inner = in.shape().product(axis + 1, in.rank());
  constexpr int64_t kShortest = 32;
  const bool by_rows = outer > 1 && in.num_elements() > 0 && is_plain(in.dtype()) &&
                       static_cast<int64_t>(in.bytes()) / outer / static_cast<int64_t>(sizes.size()) >= kShortest;
  if (!by_rows) {
    int64_t offset = 0;
    for (size_t i = 0; i < sizes.size(); offset += sizes[i++])
      take_part(ctx, static_cast<int>(i), in, axis, offset, sizes[i], shape_of(sizes[i]));
    return;
  }
  struct Part {
    char* to;
    int64_t bytes;  // of a row
  };
  std::vector<Part> parts;
  const int64_t element = static_cast<int64_t>(size_of(in.dtype())) * inner;
  for (size_t i = 0; i < sizes.size(); ++i) {
    Tensor& out = ctx.allocate(static_cast<int>(i), shape_of(sizes[i]));
    if (sizes[i] > 0) parts.push_back({static_cast<char*>(out.raw()), sizes[i] * element});
  }
  const auto* from = static_cast<const char*>(in.raw());
  const int64_t row_bytes = in.dim(axis) * element;
  parallel_for(outer, std::max<int64_t>(1, kMoveGrain / row_bytes), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const char* at = from + row * row_bytes;
      for (const Part& part : parts) {
        std::memcpy(part.to + row * part.bytes, at, static_cast<size_t>(part.bytes));
        at += part.bytes;
      }
    }
  });
}

struct Unpack : Kernel {
  explicit Unpack(const Construction& c) : axis(c.attr<int64_t>("axis", 0)) {}
  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    require(axis >= -in.rank() && axis < in.rank(), "axis = ", axis, " not in [", -in.rank(), ", ", in.rank(), ")");
    int at = static_cast<int>(axis < 0 ? axis + in.rank() : axis);
    require(in.dim(at) == ctx.num_outputs(), "Input shape axis ", at, " must equal ", ctx.num_outputs(), ", got shape ",
            in.shape());
    take_parts(ctx, in, at, std::vector<int64_t>(static_cast<size_t>(ctx.num_outputs()), 1), true);
  }
  int64_t axis;
};

int split_axis(const Tensor& axis, const Tensor& in) {
  require(axis.num_elements() == 1, "split_dim must be a scalar, got shape ", axis.shape());
  int64_t value = to_int64(axis);
  require(value >= -in.rank() && value < in.rank(), "-input rank(-", in.rank(), ") <= split_dim < input rank (",
          in.rank(), "), but got ", value);
  return static_cast<int>(value < 0 ? value + in.rank() : value);
}

void split(Context& ctx) {
  const Tensor& in = ctx.input(1);
  int axis = split_axis(ctx.input(0), in);
  int64_t parts = ctx.num_outputs();
  require(in.dim(axis) % parts == 0,
          "Number of ways to split should evenly divide the split dimension, but got "
          "split_dim ",
          axis, " (size = ", in.dim(axis), ") and num_split ", parts);
  take_parts(ctx, in, axis, std::vector<int64_t>(static_cast<size_t>(parts), in.dim(axis) / parts), false);
}

void split_v(Context& ctx) {
  const Tensor& in = ctx.input(0);
  const Tensor& size_splits = ctx.input(1);
  int axis = split_axis(ctx.input(2), in);
  require(size_splits.rank() == 1 && size_splits.num_elements() == ctx.num_outputs(),
          "size_splits must be a vector with one size for each of the ", ctx.num_outputs(), " outputs, got shape ",
          size_splits.shape());
  std::vector<int64_t> sizes = to_int64s(size_splits);
  int64_t total = 0;
  int open = -1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == -1) {
      require(open < 0, "There can only be one -1 in size_splits: they are at ", open, " and ", i);
      open = static_cast<int>(i);
      continue;
    }
    require(sizes[i] >= 0, "Split size at index ", i, " must be >= 0. Got: ", sizes[i]);
    require(!__builtin_add_overflow(total, sizes[i], &total), "the split sizes overflow");
  }
  require(open < 0 ? total == in.dim(axis) : total <= in.dim(axis),
          "Determined shape must either match input shape along split_dim exactly if fully specified, or be less than "
          "the size of the input along split_dim if not fully specified.  Got: ",
          total, ", and the size is ", in.dim(axis));
  if (open >= 0) sizes[open] = in.dim(axis) - total;
  take_parts(ctx, in, axis, sizes, false);
}

REGISTER(kernel("Concat").function<concat>());
REGISTER(kernel("ConcatV2").function<concat_v2>());
REGISTER(kernel("Pack").make<Pack>());
REGISTER(kernel("ParallelConcat").make<ParallelConcat>());
REGISTER(kernel("Unpack").make<Unpack>());
REGISTER(kernel("Split").function<split>());
REGISTER(kernel("SplitV").function<split_v>());

}  // namespace
}  // namespace thalweg
