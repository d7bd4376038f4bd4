// Reverse, ReverseSequence and Roll: the same elements in another order along some dimensions.
#include "compute/copies/elements.h"
#include "compute/copies/strided_copy.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

void reverse_along(Context& ctx, const std::vector<char>& reversed) {
  const Tensor& in = ctx.input(0);
  std::vector<int64_t> stride = strides_of(in.shape());
  std::vector<CopyDim> dims;
  int64_t start = 0;
  for (int i = 0; i < in.rank(); ++i) {
    dims.push_back({in.dim(i), reversed[i] ? -stride[i] : stride[i], stride[i]});
    if (reversed[i]) start += (in.dim(i) - 1) * stride[i];
  }
  Tensor& out = ctx.allocate(0, in.shape());
  if (out.num_elements() > 0) strided_copy(in.dtype(), element_at(in.dtype(), in.raw(), start), out.raw(), dims);
}

void reverse(Context& ctx) {
  const Tensor& in = ctx.input(0);
  const Tensor& dims = ctx.input(1);
  require(dims.rank() == 1 && dims.num_elements() == in.rank(),
          "'dims' must be a vector with one entry for each of the ", in.rank(), " dimensions of 'tensor', got shape ",
          dims.shape());
  std::vector<char> reversed(in.rank());
  for (int i = 0; i < in.rank(); ++i) reversed[i] = dims.flat<bool>()[i];
  reverse_along(ctx, reversed);
}

void reverse_v2(Context& ctx) {
  const Tensor& in = ctx.input(0);
  require(ctx.input(1).rank() == 1, "'axis' must be 1-dimension, not ", ctx.input(1).rank());
  std::vector<char> reversed(in.rank(), 0);
  for (int64_t axis : to_int64s(ctx.input(1))) {
    require(axis >= -in.rank() && axis < in.rank(), "'axis' ", axis, " is out of valid range [", -in.rank(), ", ",
            in.rank() - 1, "]");
    char& flag = reversed[axis < 0 ? axis + in.rank() : axis];
    require(!flag, "axis ", axis, " specified more than once.");
    flag = 1;
  }
  reverse_along(ctx, reversed);
}

struct ReverseSequence : Kernel {
  explicit ReverseSequence(const Construction& c)
      : seq_dim(c.attr<int64_t>("seq_dim")), batch_dim(c.attr<int64_t>("batch_dim", 0)) {}
  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    const Tensor& lengths_tensor = ctx.input(1);
    int seq = checked_axis(seq_dim, in.rank()), batch = checked_axis(batch_dim, in.rank());
    require(seq != batch, "batch_dim == seq_dim == ", seq);
    require(lengths_tensor.rank() == 1, "seq_lengths must be 1-dim, not ", lengths_tensor.rank());
    require(lengths_tensor.num_elements() == in.dim(batch), "Length of seq_lengths != input.dims(", batch, "), (",
            lengths_tensor.num_elements(), " vs. ", in.dim(batch), ")");
    std::vector<int64_t> lengths = to_int64s(lengths_tensor);
    for (size_t i = 0; i < lengths.size(); ++i)
      require(lengths[i] >= 0 && lengths[i] <= in.dim(seq), "seq_lengths(", i, ") = ", lengths[i],
              " must be in [0, input.dims(", seq, ")], which is ", in.dim(seq));
    Tensor& out = ctx.allocate(0, in.shape());
    if (out.num_elements() == 0) return;
    std::vector<int64_t> stride = strides_of(in.shape());
    std::vector<CopyDim> dims;
    for (int i = 0; i < in.rank(); ++i) dims.push_back({i == batch ? 1 : in.dim(i), stride[i], stride[i]});
    auto copy = [&](int64_t from, int64_t to) {
      strided_copy(in.dtype(), element_at(in.dtype(), in.raw(), from), element_at(in.dtype(), out.raw(), to), dims);
    };
    for (int64_t b = 0; b < in.dim(batch); ++b) {
      int64_t base = b * stride[batch], length = lengths[b];
      dims[seq] = {length, -stride[seq], stride[seq]};
      if (length > 0) copy(base + (length - 1) * stride[seq], base);
      dims[seq] = {in.dim(seq) - length, stride[seq], stride[seq]};
      if (length < in.dim(seq)) copy(base + length * stride[seq], base + length * stride[seq]);
    }
  }
  int64_t seq_dim, batch_dim;
};

// Copies the input in blocks: every rolled dimension falls into two.
void copy_rolled(const Tensor& in, Tensor& out, const std::vector<int64_t>& shift, const std::vector<int64_t>& stride,
                 int d, int64_t from, int64_t to, std::vector<CopyDim>& dims) {
  if (d == in.rank()) {
    strided_copy(in.dtype(), element_at(in.dtype(), in.raw(), from), element_at(in.dtype(), out.raw(), to), dims);
    return;
  }
  int64_t size = in.dim(d), head = size - shift[d];
  dims[d].size = head;
  copy_rolled(in, out, shift, stride, d + 1, from, to + shift[d] * stride[d], dims);
  if (shift[d] > 0) {
    dims[d].size = shift[d];
    copy_rolled(in, out, shift, stride, d + 1, from + head * stride[d], to, dims);
  }
}

void roll(Context& ctx) {
  const Tensor& in = ctx.input(0);
  const Tensor& shifts = ctx.input(1);
  const Tensor& axes = ctx.input(2);
  require(in.rank() >= 1, "input must be 1-D or higher");
  require(shifts.rank() <= 1, "shift must be a scalar or a 1-D vector. Found: ", shifts.shape());
  require(axes.rank() <= 1, "axis must be a scalar or a 1-D vector. Found: ", axes.shape());
  require(shifts.shape() == axes.shape(), "shift and axis must have the same size: ", shifts.shape(), " and ",
          axes.shape());
  std::vector<int64_t> by = to_int64s(shifts), along = to_int64s(axes), shift(in.rank(), 0);
  for (size_t i = 0; i < by.size(); ++i) {
    require(along[i] >= -in.rank() && along[i] < in.rank(), "axis ", along[i], " is out of range");
    int axis = static_cast<int>(along[i] < 0 ? along[i] + in.rank() : along[i]);
    int64_t size = std::max<int64_t>(1, in.dim(axis));
    shift[axis] = ((shift[axis] + by[i] % size) % size + size) % size;
  }
  Tensor& out = ctx.allocate(0, in.shape());
  if (out.num_elements() == 0) return;
  std::vector<int64_t> stride = strides_of(in.shape());
  std::vector<CopyDim> dims;
  for (int i = 0; i < in.rank(); ++i) dims.push_back({in.dim(i), stride[i], stride[i]});
  copy_rolled(in, out, shift, stride, 0, 0, 0, dims);
}

REGISTER(kernel("Reverse").function<reverse>());
REGISTER(kernel("ReverseV2").function<reverse_v2>());
REGISTER(kernel("ReverseSequence").make<ReverseSequence>());
REGISTER(kernel("Roll").function<roll>());

}  // namespace
}  // namespace thalweg
