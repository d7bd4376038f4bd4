// TensorArrays: the ops. `flow` is a float that only carries the order of operations; its value means nothing.
#include "resource/tensor_array.h"

#include "compute/copies/concatenate.h"
#include "executor/step.h"
#include "kernel/registry.h"
#include "tensor/handle_tensor.h"

namespace thalweg {
namespace {

Tensor handle_of(Context& ctx, std::shared_ptr<TensorArray> array) {
  std::string name = array->name();
  return handle_tensor({ctx.device().name, ctx.step().container(), std::move(name), std::move(array)});
}

struct Create : Kernel {
  explicit Create(const Construction& c) : name(c.attr<std::string>("tensor_array_name", "")) {
    options.dtype = c.attr<DType>("dtype");
    options.element_shape = c.attr<PartialShape>("element_shape", PartialShape{});
    options.dynamic_size = c.attr<bool>("dynamic_size", false);
    options.clear_after_read = c.attr<bool>("clear_after_read", true);
    options.identical_element_shapes = c.attr<bool>("identical_element_shapes", false);
    if (name.empty()) name = c.def().name;
  }
  void compute(Context& ctx) override {
    const int64_t size = to_int64(ctx.input(0));
    require(size >= 0, "the size of TensorArray ", name, " must not be negative, got ", size);
    ctx.set_output(0, handle_of(ctx, std::make_shared<TensorArray>(name, options, size)));
    ctx.set_output(1, Tensor::scalar(0.0f));
  }
  TensorArray::Options options;
  std::string name;
};

struct Gradient : Kernel {
  explicit Gradient(const Construction& c) : source(c.attr<std::string>("source")) {}
  void compute(Context& ctx) override {
    std::vector<int64_t> prepended;
    if (ctx.num_inputs() > 2) prepended = to_int64s(ctx.input(2));
    for (int64_t size : prepended) require(size >= 0, "shape_to_prepend has the negative size ", size);
    ctx.set_output(0, handle_of(ctx, ctx.resource<TensorArray>(0).gradient(source, prepended)));
    ctx.set_output(1, ctx.take_input(1));
  }
  std::string source;
};

TensorArray& array_of(Context& ctx, DType dtype) {
  TensorArray& array = ctx.resource<TensorArray>(0);
  require(array.dtype() == dtype, "TensorArray ", array.name(), ": TensorArray dtype is ", array.dtype(),
          " but Op is trying to use dtype ", dtype, ".");
  return array;
}

void write(Context& ctx) {
  int64_t index = to_int64(ctx.input(1));
  Tensor value = ctx.take_input(2);
  array_of(ctx, value.dtype()).write({&index, 1}, {&value, 1});
  ctx.set_output(0, ctx.take_input(3));
}

void read(Context& ctx) {
  int64_t index = to_int64(ctx.input(1));
  ctx.set_output(0, std::move(array_of(ctx, ctx.output_dtype(0)).read({&index, 1})[0]));
}

// Part `first, count` along dimension 0, without that dimension if `drop`; shares the buffer.
Tensor part(const Tensor& value, int64_t first, int64_t count, bool drop) {
  Tensor rows = value.rows(first, count);
  return drop ? rows.reshaped(value.shape().removed(0)) : rows;
}

// Whether the indices are 0, 1, 2 and so on.
bool counts_up(const std::vector<int64_t>& indices) {
  for (size_t i = 0; i < indices.size(); ++i)
    if (indices[i] != static_cast<int64_t>(i)) return false;
  return true;
}

void scatter(Context& ctx) {
  std::vector<int64_t> indices = to_int64s(ctx.input(1));
  Tensor value = ctx.input(2).owned();
  require(ctx.input(1).rank() == 1, "indices must be a vector, got shape ", ctx.input(1).shape());
  require(value.rank() >= 1, "the value must have at least one dimension, got a scalar");
  require(value.dim(0) == static_cast<int64_t>(indices.size()), "the value has shape ", value.shape(),
          ", but there are ", indices.size(), " indices");
  TensorArray& array = array_of(ctx, value.dtype());
  if (!counts_up(indices) || !array.write_whole(value)) {
    std::vector<Tensor> parts;
    for (size_t i = 0; i < indices.size(); ++i) parts.push_back(part(value, static_cast<int64_t>(i), 1, true));
    array.write(indices, parts);
  }
  ctx.set_output(0, ctx.take_input(3));
}

void split(Context& ctx) {
  Tensor value = ctx.input(1).owned();
  const Tensor& given = ctx.input(2);
  require(given.rank() == 1, "lengths must be a vector, got shape ", given.shape());
  require(value.rank() >= 1, "the value must have at least one dimension, got a scalar");
  std::vector<int64_t> lengths = to_int64s(given);
  int64_t total = 0;
  for (int64_t length : lengths) {
    require(length >= 0 && length <= value.dim(0) - total, "lengths must be at least 0 and sum to ", value.dim(0),
            ", the first dimension of the value of shape ", value.shape(), "; got ", length, " after ", total);
    total += length;
  }
  require(total == value.dim(0), "Expected sum of lengths to be equal to values.shape[0], but sum of lengths is ",
          total, " and value's shape is: ", value.shape());
  TensorArray& array = array_of(ctx, value.dtype());
  array.begin_split(static_cast<int64_t>(lengths.size()));
  std::vector<int64_t> indices;
  std::vector<Tensor> parts;
  int64_t first = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    indices.push_back(static_cast<int64_t>(i));
    parts.push_back(part(value, first, lengths[i], false));
    first += lengths[i];
  }
  array.write(indices, parts);
  ctx.set_output(0, ctx.take_input(3));
}

// The shape of the elements of an empty array: that of the node or, if unknown, of the array.
std::vector<int64_t> empty_shape(const PartialShape& declared, const PartialShape& array, const std::string& name) {
  const PartialShape& shape = declared.fully_defined() ? declared : array;
  if (!shape.fully_defined())
    fail(Code::unimplemented, "TensorArray ", name, " has size zero, but element shape ", declared,
         " is not fully defined. Set element_shape to pack an empty TensorArray.");
  return shape.dims;
}

struct Gather : Kernel {
  explicit Gather(const Construction& c) : element_shape(c.attr<PartialShape>("element_shape", PartialShape{})) {}
  void compute(Context& ctx) override {
    TensorArray& array = array_of(ctx, ctx.output_dtype(0));
    require(ctx.input(1).rank() == 1, "indices must be a vector, got shape ", ctx.input(1).shape());
    std::vector<int64_t> indices = to_int64s(ctx.input(1));
    if (indices.empty()) {
      std::vector<int64_t> dims = empty_shape(element_shape, array.element_shape(), array.name());
      dims.insert(dims.begin(), 0);
      ctx.allocate(0, Shape(dims));
      return;
    }
    if (counts_up(indices)) {
      if (std::optional<Tensor> rows = array.read_whole(static_cast<int64_t>(indices.size()))) {
        require_element(rows->shape().removed(0), indices[0]);
        return ctx.set_output(0, std::move(*rows));
      }
    }
    std::vector<Tensor> values = array.read(indices);
    const Shape& shape = values[0].shape();
    require_element(shape, indices[0]);
    for (size_t i = 1; i < values.size(); ++i)
      require(values[i].shape() == shape, "TensorArray has inconsistent shapes.  Index ", indices[0],
              " has shape: ", shape, " but index ", indices[i], " has shape: ", values[i].shape());
    Tensor& out = ctx.allocate(0, shape.inserted(0, static_cast<int64_t>(values.size())));
    concatenate(values, out);
  }
  void require_element(const Shape& shape, int64_t index) const {
    require(element_shape.accepts(shape), "TensorArray was passed element_shape ", element_shape,
            " which does not match the Tensor at index ", index, ": ", shape);
  }
  PartialShape element_shape;
};

struct Concat : Kernel {
  explicit Concat(const Construction& c) : rest(c.attr<PartialShape>("element_shape_except0", PartialShape{})) {}
  void compute(Context& ctx) override {
    TensorArray& array = array_of(ctx, ctx.output_dtype(0));
    std::vector<Tensor> values = array.read_all();
    Tensor& lengths = ctx.allocate(1, Shape{static_cast<int64_t>(values.size())});
    if (values.empty()) {
      PartialShape declared = array.element_shape();
      if (declared.known_rank && !declared.dims.empty()) declared.dims.erase(declared.dims.begin());
      std::vector<int64_t> dims = empty_shape(rest, declared, array.name());
      dims.insert(dims.begin(), 0);
      ctx.allocate(0, Shape(dims));
      return;
    }
    const Shape& first = values[0].shape();
    int64_t total = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const Shape& shape = values[i].shape();
      require(shape.rank() >= 1, "Concat saw a scalar shape at index ", i,
              " but requires at least vectors.  Did you mean to call pack instead?");
      require(shape.rank() == first.rank() && std::equal(shape.begin() + 1, shape.end(), first.begin() + 1),
              "TensorArray has inconsistent shapes.  Index 0 has (excepting dimension 0) shape: ", first, " but index ",
              i, " has (excepting dimension 0) shape: ", shape);
      lengths.flat<int64_t>()[i] = shape[0];
      total += shape[0];
    }
    require(rest.accepts(first.removed(0)), "TensorArray was passed element_shape_except0 ", rest,
            " but its elements have shape ", first);
    Tensor& out = ctx.allocate(0, first.with_dim(0, total));
    concatenate(values, out);
  }
  PartialShape rest;
};

void size(Context& ctx) {
  int64_t count = ctx.resource<TensorArray>(0).size();
  require(count <= std::numeric_limits<int32_t>::max(), "a TensorArray of ", count,
          " elements has no size of type int32");
  ctx.set_output(0, Tensor::scalar(static_cast<int32_t>(count)));
}

void close(Context& ctx) { ctx.resource<TensorArray>(0).close(); }

REGISTER(kernel("TensorArrayV3").make<Create>());
REGISTER(kernel("TensorArrayGradV3").make<Gradient>());
REGISTER(kernel("TensorArrayGradWithShape").make<Gradient>());
REGISTER(kernel("TensorArrayWriteV3").function<write>());
REGISTER(kernel("TensorArrayReadV3").function<read>());
REGISTER(kernel("TensorArrayGatherV3").make<Gather>());
REGISTER(kernel("TensorArrayScatterV3").function<scatter>());
REGISTER(kernel("TensorArrayConcatV3").make<Concat>());
REGISTER(kernel("TensorArraySplitV3").function<split>());
REGISTER(kernel("TensorArraySizeV3").function<size>());
REGISTER(kernel("TensorArrayCloseV3").function<close>());

}  // namespace
}  // namespace thalweg
