// Pad, PadV2, MirrorPad and the gradient of MirrorPad.
#include "compute/copies/elements.h"
#include "compute/copies/strided_copy.h"
#include "compute/elementwise/elementwise.h"

namespace thalweg {
namespace {

struct Padding {
  int64_t before, after;
};

std::vector<Padding> paddings_of(const Tensor& t, int rank) {
  require(t.rank() == 2 && t.dim(1) == 2, "paddings must be a matrix with 2 columns: ", t.shape());
  require(t.dim(0) == rank, "The first dimension of paddings must be the rank of inputs: paddings have shape ",
          t.shape(), ", the input has rank ", rank);
  std::vector<int64_t> values = to_int64s(t);
  std::vector<Padding> paddings(rank);
  for (int i = 0; i < rank; ++i) {
    paddings[i] = {values[2 * i], values[2 * i + 1]};
    require(paddings[i].before >= 0 && paddings[i].after >= 0, "Paddings must be non-negative: ", paddings[i].before,
            " ", paddings[i].after, " for dimension ", i);
  }
  return paddings;
}

Shape padded_shape(const Shape& shape, const std::vector<Padding>& paddings) {
  std::vector<int64_t> sizes(shape.begin(), shape.end());
  for (int i = 0; i < shape.rank(); ++i)
    require(!__builtin_add_overflow(sizes[i], paddings[i].before, &sizes[i]) &&
                !__builtin_add_overflow(sizes[i], paddings[i].after, &sizes[i]),
            "dimension ", i, " of size ", shape[i], " overflows with paddings of ", paddings[i].before, " and ",
            paddings[i].after);
  return Shape(sizes);
}

bool unpadded(const std::vector<Padding>& paddings) {
  return std::all_of(paddings.begin(), paddings.end(), [](Padding p) { return p.before == 0 && p.after == 0; });
}

// Copies the input into the interior of the output.
void copy_interior(const Tensor& in, Tensor& out, const std::vector<Padding>& paddings) {
  std::vector<int64_t> from = strides_of(in.shape()), to = strides_of(out.shape());
  std::vector<CopyDim> dims;
  int64_t offset = 0;
  for (int i = 0; i < in.rank(); ++i) {
    dims.push_back({in.dim(i), from[i], to[i]});
    offset += paddings[i].before * to[i];
  }
  if (in.num_elements() > 0) strided_copy(in.dtype(), in.raw(), element_at(out.dtype(), out.raw(), offset), dims);
}

// The border is cut into two slabs per dimension: each spans the interior of the dimensions before it, and the whole
// extent of those after it.
void fill_border(const Tensor& in, Tensor& out, const std::vector<Padding>& paddings, const void* value) {
  std::vector<int64_t> to = strides_of(out.shape());
  int64_t offset = 0;
  for (int d = 0; d < in.rank(); ++d) {
    std::vector<CopyDim> dims;
    for (int i = 0; i < in.rank(); ++i)
      dims.push_back({i < d ? in.dim(i) : i == d ? paddings[d].before : out.dim(i), 0, to[i]});
    strided_copy(out.dtype(), value, element_at(out.dtype(), out.raw(), offset), dims);
    dims[d].size = paddings[d].after;
    int64_t end = offset + (paddings[d].before + in.dim(d)) * to[d];
    if (paddings[d].after > 0) strided_copy(out.dtype(), value, element_at(out.dtype(), out.raw(), end), dims);
    offset += paddings[d].before * to[d];
  }
}

void pad(Context& ctx) {
  const Tensor& in = ctx.input(0);
  std::vector<Padding> paddings = paddings_of(ctx.input(1), in.rank());
  Shape shape = padded_shape(in.shape(), paddings);
  if (unpadded(paddings)) return ctx.set_output(0, ctx.take_input(0));
  Tensor zero;
  if (ctx.num_inputs() < 3) {
    zero = Tensor(in.dtype(), Shape{});
    zero_elements(in.dtype(), zero.raw(), 1);
  } else {
    require(ctx.input(2).num_elements() == 1, "constant_values must be a scalar. Found: ", ctx.input(2).shape());
  }
  const Tensor& value = ctx.num_inputs() < 3 ? zero : ctx.input(2);
  Tensor& out = ctx.allocate(0, shape);
  if (out.num_elements() == 0) return;
  if (in.num_elements() == 0) return fill_elements(out.dtype(), out.raw(), value.raw(), out.num_elements());
  fill_border(in, out, paddings, value.raw());
  copy_interior(in, out, paddings);
}

int64_t mirror_offset(const Construction& c) {
  std::string mode = c.attr<std::string>("mode");
  require(mode == "REFLECT" || mode == "SYMMETRIC", "mode must be either REFLECT or SYMMETRIC, got ", mode);
  return mode == "REFLECT" ? 1 : 0;  // REFLECT does not repeat the edge.
}

void check_mirror(const std::vector<Padding>& paddings, const Shape& shape, int64_t offset) {
  for (int i = 0; i < shape.rank(); ++i) {
    int64_t most = std::max<int64_t>(0, shape[i] - offset);
    require(paddings[i].before <= most && paddings[i].after <= most, "paddings must be no greater than ",
            offset ? "the dimension size minus 1" : "the dimension size", ": ", paddings[i].before, ", ",
            paddings[i].after, " greater than ", most, " for dimension ", i);
  }
}

struct MirrorPad : Kernel {
  explicit MirrorPad(const Construction& c) : offset(mirror_offset(c)) {}
  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    std::vector<Padding> paddings = paddings_of(ctx.input(1), in.rank());
    check_mirror(paddings, in.shape(), offset);
    Tensor& out = ctx.allocate(0, padded_shape(in.shape(), paddings));
    if (out.num_elements() == 0) return;
    copy_interior(in, out, paddings);
    std::vector<int64_t> to = strides_of(out.shape());
    // From the innermost dimension out: the source of a slab is complete in all inner dimensions.
    for (int d = in.rank() - 1; d >= 0; --d) {
      int64_t base = 0;
      std::vector<CopyDim> dims;
      for (int i = 0; i < in.rank(); ++i) {
        dims.push_back({i < d ? in.dim(i) : out.dim(i), to[i], to[i]});
        if (i < d) base += paddings[i].before * to[i];
      }
      auto at = [&](int64_t index) { return element_at(out.dtype(), out.raw(), base + index * to[d]); };
      int64_t first = paddings[d].before, last = first + in.dim(d) - 1;
      if (first > 0) {
        dims[d] = {first, to[d], -to[d]};
        strided_copy(out.dtype(), at(first + offset), at(first - 1), dims);
      }
      if (paddings[d].after > 0) {
        dims[d] = {paddings[d].after, -to[d], to[d]};
        strided_copy(out.dtype(), at(last - offset), at(last + 1), dims);
      }
    }
  }
  int64_t offset;
};

// to[...] += from[...] over a box of one buffer.
template <typename T>
void add_box(T* data, int64_t from, int64_t to, const std::vector<CopyDim>& dims, size_t d = 0) {
  using C = Compute<T>;
  if (d == dims.size()) {
    data[to] = static_cast<T>(static_cast<C>(data[to]) + static_cast<C>(data[from]));
    return;
  }
  for (int64_t i = 0; i < dims[d].size; ++i) add_box(data, from + i * dims[d].from, to + i * dims[d].to, dims, d + 1);
}

struct MirrorPadGrad : Kernel {
  explicit MirrorPadGrad(const Construction& c) : offset(mirror_offset(c)) {}
  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    std::vector<Padding> paddings = paddings_of(ctx.input(1), in.rank());
    std::vector<int64_t> sizes(in.rank());
    for (int i = 0; i < in.rank(); ++i) {
      require(paddings[i].before <= in.dim(i) && paddings[i].after <= in.dim(i) - paddings[i].before, "the paddings ",
              paddings[i].before, " and ", paddings[i].after, " exceed the size ", in.dim(i), " of dimension ", i);
      sizes[i] = in.dim(i) - paddings[i].before - paddings[i].after;
    }
    Shape shape(sizes);
    check_mirror(paddings, shape, offset);
    Tensor& out = ctx.allocate(0, shape);
    if (out.num_elements() == 0) return;
    Tensor sums = in.clone();
    std::vector<int64_t> stride = strides_of(in.shape());
    int64_t base = 0;
    dispatch(in.dtype(), Numbers{}, [&]<typename T>() {
      for (int d = 0; d < in.rank(); ++d) {
        std::vector<CopyDim> dims;
        for (int i = 0; i < in.rank(); ++i) dims.push_back({i < d ? sizes[i] : in.dim(i), stride[i], stride[i]});
        int64_t s = stride[d], first = paddings[d].before, last = first + sizes[d] - 1;
        dims[d] = {first, -s, s};
        add_box(sums.flat<T>(), base + (first - 1) * s, base + (first + offset) * s, dims);
        dims[d] = {paddings[d].after, s, -s};
        add_box(sums.flat<T>(), base + (last + 1) * s, base + (last - offset) * s, dims);
        base += first * s;
      }
    });
    std::vector<CopyDim> dims;
    std::vector<int64_t> to = strides_of(shape);
    for (int i = 0; i < in.rank(); ++i) dims.push_back({sizes[i], stride[i], to[i]});
    strided_copy(in.dtype(), element_at(in.dtype(), sums.raw(), base), out.raw(), dims);
  }
  int64_t offset;
};

REGISTER(kernel("Pad").function<pad>());
REGISTER(kernel("PadV2").function<pad>());
REGISTER(kernel("MirrorPad").make<MirrorPad>());
REGISTER(kernel("MirrorPadGrad").types("T", Numbers{}).make<MirrorPadGrad>());

}  // namespace
}  // namespace thalweg
