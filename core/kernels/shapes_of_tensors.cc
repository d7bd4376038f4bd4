// Kernels that read shapes, or give a tensor another shape without touching its elements.
#include <limits>

#include "compute/copies/elements.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

Tensor vector_of(DType dtype, std::span<const int64_t> values) {
  Tensor out(dtype, Shape{static_cast<int64_t>(values.size())});
  if (dtype == DType::int64) {
    std::copy(values.begin(), values.end(), out.flat<int64_t>());
    return out;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    require(values[i] <= std::numeric_limits<int32_t>::max() && values[i] >= std::numeric_limits<int32_t>::min(),
            "the number ", values[i], " at position ", i, " does not fit int32; ask for out_type=int64");
    out.flat<int32_t>()[i] = static_cast<int32_t>(values[i]);
  }
  return out;
}

Tensor scalar_of(DType dtype, int64_t value) { return vector_of(dtype, {&value, 1}).reshaped(Shape{}); }

void shape(Context& ctx) {
  for (int i = 0; i < ctx.num_inputs(); ++i)
    ctx.set_output(i, vector_of(ctx.output_dtype(i), ctx.input(i).shape().dims()));
}

void size(Context& ctx) { ctx.set_output(0, scalar_of(ctx.output_dtype(0), ctx.input(0).num_elements())); }

void rank(Context& ctx) { ctx.set_output(0, Tensor::scalar<int32_t>(ctx.input(0).rank())); }

void reshape(Context& ctx) {
  const Tensor& sizes = ctx.input(1);
  require(sizes.rank() == 1, "sizes input must be 1-D, not ", sizes.shape());
  std::vector<int64_t> dims = to_int64s(sizes);
  int unknown = -1;
  int64_t known = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == -1) {
      require(unknown < 0, "Only one input size may be -1, not both ", unknown, " and ", i);
      unknown = static_cast<int>(i);
      dims[i] = 1;
    }
    require(dims[i] >= 0, "Size ", i, " must be non-negative, not ", dims[i]);
  }
  known = Shape(dims).num_elements();
  int64_t count = ctx.input(0).num_elements();
  if (unknown >= 0) {
    require(known > 0,
            "reshape cannot infer the missing input size for an empty tensor unless all specified input "
            "sizes are non-zero");
    require(count % known == 0, "Input to reshape is a tensor with ", count,
            " values, but the requested shape requires a multiple of ", known);
    dims[unknown] = count / known;
  } else {
    require(count == known, "Input to reshape is a tensor with ", count, " values, but the requested shape has ",
            known);
  }
  ctx.set_output(0, ctx.input(0).reshaped(Shape(dims)));
}

void expand_dims(Context& ctx) {
  const Tensor& dim = ctx.input(1);
  require(dim.num_elements() == 1, "'dim' must be a tensor with a single value, got shape ", dim.shape());
  int64_t axis = to_int64(dim);
  int rank = ctx.input(0).rank();
  require(axis >= -rank - 1 && axis <= rank, "Tried to expand dim index ", axis, " for tensor with ", rank,
          " dimensions.");
  if (axis < 0) axis += rank + 1;
  ctx.set_output(0, ctx.input(0).reshaped(ctx.input(0).shape().inserted(static_cast<int>(axis), 1)));
}

struct Squeeze : Kernel {
  explicit Squeeze(const Construction& c) : axes(c.attr<std::vector<int64_t>>("squeeze_dims", {})) {}
  void compute(Context& ctx) override {
    const Shape& shape = ctx.input(0).shape();
    std::vector<char> drop(shape.rank(), axes.empty());
    for (int64_t axis : axes) {
      require(axis >= -shape.rank() && axis < shape.rank(), "Tried to squeeze dim index ", axis, " for tensor with ",
              shape.rank(), " dimensions.");
      int i = static_cast<int>(axis < 0 ? axis + shape.rank() : axis);
      require(shape[i] == 1, "Can not squeeze dim[", i, "], expected a dimension of 1, got ", shape[i]);
      drop[i] = 1;
    }
    std::vector<int64_t> dims;
    for (int i = 0; i < shape.rank(); ++i)
      if (!drop[i] || shape[i] != 1) dims.push_back(shape[i]);
    ctx.set_output(0, ctx.input(0).reshaped(Shape(dims)));
  }
  std::vector<int64_t> axes;
};

struct EnsureShape : Kernel {
  explicit EnsureShape(const Construction& c) : expected(c.attr<PartialShape>("shape")) {}
  void compute(Context& ctx) override {
    require(expected.accepts(ctx.input(0).shape()), "Shape of tensor ", ctx.def().name, " ", ctx.input(0).shape(),
            " is not compatible with expected shape ", expected, ".");
    ctx.set_output(0, ctx.take_input(0));
  }
  PartialShape expected;
};

std::vector<int64_t> checked_shape(const Tensor& t) {
  require(t.rank() == 1, "a shape must be a vector, got a tensor of shape ", t.shape());
  std::vector<int64_t> dims = to_int64s(t);
  for (int64_t d : dims) require(d >= 0, "a dimension of a shape is negative: ", d);
  return dims;
}

void broadcast_args(Context& ctx) {
  std::vector<int64_t> a = checked_shape(ctx.input(0)), b = checked_shape(ctx.input(1));
  if (a.size() < b.size()) std::swap(a, b);
  size_t offset = a.size() - b.size();
  for (size_t i = 0; i < b.size(); ++i) {
    int64_t& x = a[offset + i];
    require(x == b[i] || x == 1 || b[i] == 1, "Incompatible shapes: ", Shape(checked_shape(ctx.input(0))), " vs. ",
            Shape(checked_shape(ctx.input(1))));
    if (x == 1) x = b[i];
  }
  ctx.set_output(0, vector_of(ctx.output_dtype(0), a));
}

// The axes to sum over, for each of two operands, to undo their broadcasting against each other.
void broadcast_gradient_args(Context& ctx) {
  std::vector<int64_t> a = checked_shape(ctx.input(0)), b = checked_shape(ctx.input(1));
  int64_t rank = static_cast<int64_t>(std::max(a.size(), b.size()));
  a.insert(a.begin(), rank - a.size(), 1);
  b.insert(b.begin(), rank - b.size(), 1);
  std::vector<int64_t> sum_a, sum_b;
  int64_t missing_a = rank - ctx.input(0).num_elements(), missing_b = rank - ctx.input(1).num_elements();
  for (int64_t i = 0; i < rank; ++i) {
    require(a[i] == b[i] || a[i] == 1 || b[i] == 1, "Incompatible shapes: ", Shape(checked_shape(ctx.input(0))),
            " vs. ", Shape(checked_shape(ctx.input(1))));
    if (i < missing_a || a[i] == 1) sum_a.push_back(i);
    if (i < missing_b || b[i] == 1) sum_b.push_back(i);
  }
  ctx.set_output(0, vector_of(ctx.output_dtype(0), sum_a));
  ctx.set_output(1, vector_of(ctx.output_dtype(1), sum_b));
}

void concat_offset(Context& ctx) {
  const Tensor& axis_tensor = ctx.input(0);
  require(axis_tensor.num_elements() == 1, "Concat dim tensor should be a scalar integer, but got shape ",
          axis_tensor.shape());
  std::vector<int64_t> first = checked_shape(ctx.input(1));
  int rank = static_cast<int>(first.size());
  int axis = checked_axis(to_int64(axis_tensor), rank);
  int64_t offset = 0;
  for (int i = 1; i < ctx.num_inputs(); ++i) {
    std::vector<int64_t> dims = checked_shape(ctx.input(i));
    require(dims.size() == first.size(), "input ", i, " should contain ", first.size(), " elements, but got ",
            dims.size());
    for (int d = 0; d < rank; ++d)
      require(d == axis || dims[d] == first[d], "All dimensions except ", axis, " must match. Input ", i, " has shape ",
              Shape(dims), " and doesn't match input 1 with shape ", Shape(first), ".");
    std::vector<int64_t> offsets(rank, 0);
    offsets[axis] = offset;
    ctx.set_output(i - 1, vector_of(ctx.output_dtype(i - 1), offsets));
    require(!__builtin_add_overflow(offset, dims[axis], &offset), "the sizes along dimension ", axis, " overflow");
  }
}

void invert_permutation(Context& ctx) {
  const Tensor& in = ctx.input(0);
  require(in.rank() == 1, "invert_permutation expects a 1D vector, got shape ", in.shape());
  const int64_t n = in.num_elements();
  Tensor& out = ctx.allocate(0, in.shape());
  dispatch(in.dtype(), Indices{}, [&]<typename T>() {
    const T* perm = in.flat<T>();
    T* inverse = out.flat<T>();
    std::fill_n(inverse, n, T(-1));
    for (int64_t i = 0; i < n; ++i) {
      require(perm[i] >= 0 && perm[i] < n, perm[i], " is not between 0 and ", n);
      require(inverse[perm[i]] < 0, perm[i], " is duplicated in the input.");
      inverse[perm[i]] = static_cast<T>(i);
    }
  });
}

REGISTER(kernel("Shape").function<shape>());
REGISTER(kernel("ShapeN").function<shape>());
REGISTER(kernel("Size").function<size>());
REGISTER(kernel("Rank").function<rank>());
REGISTER(kernel("Reshape").function<reshape>());
REGISTER(kernel("ExpandDims").function<expand_dims>());
REGISTER(kernel("Squeeze").make<Squeeze>());
REGISTER(kernel("EnsureShape").make<EnsureShape>());
REGISTER(kernel("BroadcastArgs").function<broadcast_args>());
REGISTER(kernel("BroadcastGradientArgs").function<broadcast_gradient_args>());
REGISTER(kernel("ConcatOffset").function<concat_offset>());
REGISTER(kernel("InvertPermutation").function<invert_permutation>());

}  // namespace
}  // namespace thalweg
