// Lists of tensors and the rows of one tensor: stack, gather and concat; from_tensor, scatter and split.
#include "compute/copies/concatenate.h"
#include "compute/copies/elements.h"
#include "kernel/registry.h"
#include "kernels/tensor_list_values.h"

namespace thalweg {
namespace {

// Zeros where `values` has unset elements: everywhere, before the others are copied over them.
void zero_unset(std::span<const Tensor> values, int64_t length, Tensor& out) {
  const bool all = static_cast<int64_t>(values.size()) == length &&
                   std::all_of(values.begin(), values.end(), [](const Tensor& value) { return value.defined(); });
  if (!all && is_plain(out.dtype())) zero_elements(out.dtype(), out.raw(), out.num_elements());
}

// The shape of every one of `values` that is set, merged with `shape`.
PartialShape common_shape(std::span<const Tensor> values, PartialShape shape) {
  for (const Tensor& value : values)
    if (value.defined() && !(shape.fully_defined() && shape.accepts(value.shape())))
      shape = merged(shape, exactly(value.shape()));
  return shape;
}

// Output 0: `length` elements of which the first are `values`, under a new first dimension.
void stack_values(Context& ctx, std::span<const Tensor> values, int64_t length, const PartialShape& element) {
  std::vector<int64_t> dims = element.dims;
  dims.insert(dims.begin(), length);
  Tensor& out = ctx.allocate(0, Shape(dims));
  const int64_t row = Shape(element.dims).num_elements();
  std::vector<int64_t> starts(values.size());
  for (size_t i = 0; i < starts.size(); ++i) starts[i] = static_cast<int64_t>(i) * row;
  zero_unset(values, length, out);
  place(values, starts, out);
}

struct Stack : Kernel {
  explicit Stack(const Construction& c) : expected(c.attr<int64_t>("num_elements", -1)) {}
  void compute(Context& ctx) override {
    const TensorList& list = list_input(ctx, 0, ctx.output_dtype(0));
    require(expected == -1 || list.length() == expected, "Operation expected a list with ", expected,
            " elements but got a list with ", list.length(), " elements.");
    PartialShape shape = common_shape(list.stored(), merged(shape_input(ctx, 1), list.element_shape()));
    require(shape.fully_defined(),
            list.length() == 0 ? "Tried to stack elements of an empty list with non-fully-defined element_shape: "
                               : "Tried to stack list which only contains uninitialized tensors and has a "
                                 "non-fully-defined element_shape: ",
            shape);
    stack_values(ctx, list.stored(), list.length(), shape);
  }
  int64_t expected;
};

void gather(Context& ctx) {
  const TensorList& list = list_input(ctx, 0, ctx.output_dtype(0));
  std::vector<Tensor> values;
  for (int64_t index : to_int64s(ctx.input(1))) {
    require(index >= 0 && index < list.length(), "Trying to gather element ", index, " in a list with ", list.length(),
            " elements.");
    values.push_back(list.at(index));
  }
  PartialShape shape = common_shape(values, merged(shape_input(ctx, 2), list.element_shape()));
  require(shape.fully_defined(),
          values.empty() ? "Tried to gather 0-elements from a list with non-fully-defined shape: "
                         : "Tried to gather uninitialized tensors from a list with non-fully-defined element_shape: ",
          shape);
  stack_values(ctx, values, static_cast<int64_t>(values.size()), shape);
}

// Concatenates the elements of a list; `element` is the declared shape of the elements, `leading` the first size of
// those that are unset.
void concat(Context& ctx, PartialShape element, const std::vector<int64_t>& leading) {
  const TensorList& list = list_input(ctx, 0, ctx.output_dtype(0));
  require(!element.known_rank || !element.dims.empty(),
          "Concat requires elements to be at least vectors, found "
          "scalars instead.");
  if (list.length() > TensorList::kMostElements)
    fail(Code::resource_exhausted, "a list of ", list.length(), " elements is too long to be concatenated");
  const PartialShape& promised = list.element_shape();
  require(!promised.known_rank || !promised.dims.empty(),
          "Concat saw a list of scalars but requires at least vectors.");
  element = merged(element, promised);
  const int64_t first = element.known_rank ? element.dims[0] : -1;
  PartialShape rest = element;
  if (rest.known_rank) rest.dims.erase(rest.dims.begin());
  Tensor& lengths = ctx.allocate(1, Shape{list.length()});
  bool unset = false;
  for (int64_t i = 0; i < list.length(); ++i) {
    const Tensor value = list.at(i);
    if (value.defined()) {
      require(value.rank() >= 1, "Concat saw a scalar shape at index ", i, " but requires at least vectors.");
      require(first < 0 || value.dim(0) == first,
              "First entry of element_shape input does not match the first dim of list element at index: ", i,
              " Expected: ", first, " Actual: ", value.dim(0));
      rest = merged(rest, exactly(value.shape().removed(0)));
      lengths.flat<int64_t>()[i] = value.dim(0);
      continue;
    }
    unset = true;
    require(first >= 0 || i < static_cast<int64_t>(leading.size()) || !rest.fully_defined(),
            "List contains uninitialized tensor at index ", i, " but leading_dims has only ", leading.size(),
            " elements.");
    lengths.flat<int64_t>()[i] = first >= 0 ? first : i < static_cast<int64_t>(leading.size()) ? leading[i] : -1;
  }
  require(list.length() > 0 || rest.fully_defined(),
          "All except the first dimension must be fully defined when concating an empty tensor list. element_shape: ",
          rest);
  require(rest.fully_defined(),
          "Trying to concat list with only uninitialized tensors but "
          "element_shape_except_first_dim is not fully defined: ",
          rest);
  const int64_t row = Shape(rest.dims).num_elements();
  std::vector<int64_t> starts(list.stored().size());
  int64_t total = 0;
  for (int64_t i = 0; i < list.length(); ++i) {
    const int64_t rows = lengths.flat<int64_t>()[i];
    require(rows >= 0, "the uninitialized element ", i, " of the list needs a first dimension from leading_dims, got ",
            rows);
    int64_t end = 0;
    require(!__builtin_add_overflow(total, rows, &total) && !__builtin_mul_overflow(total, row, &end),
            "the elements of the list have too many rows altogether");
    if (i < static_cast<int64_t>(starts.size())) starts[i] = end - rows * row;
  }
  std::vector<int64_t> dims = rest.dims;
  dims.insert(dims.begin(), total);
  Tensor& out = ctx.allocate(0, Shape(dims));
  if (unset) zero_unset({}, list.length(), out);
  place(list.stored(), starts, out);
}

struct ConcatOfAttribute : Kernel {
  explicit ConcatOfAttribute(const Construction& c) : shape(c.attr<PartialShape>("element_shape", PartialShape{})) {
    if (shape.known_rank && !shape.dims.empty()) shape.dims[0] = -1;  // As in TensorFlow, this op does not look at it.
  }
  void compute(Context& ctx) override { concat(ctx, shape, {}); }
  PartialShape shape;
};

void concat_of_inputs(Context& ctx) { concat(ctx, shape_input(ctx, 1), to_int64s(ctx.input(2))); }

// Row `i` of a tensor, sharing its buffer.
Tensor row_of(const Tensor& tensor, int64_t i, const Shape& shape) { return tensor.rows(i, 1).reshaped(shape); }

// The tensor of input `i`, whose rows become elements: at least a vector.
Tensor rows_input(Context& ctx, int i) {
  const Tensor& in = ctx.input(i);
  require(in.rank() >= 1, "Tensor must be at least a vector, but saw shape: ", in.shape());
  return in.owned();
}

// An empty list of elements that have the declared shape of input `i`; fails if the rows have another.
std::shared_ptr<TensorList> list_for(Context& ctx, int i, const Tensor& rows) {
  auto list = std::make_shared<TensorList>(rows.dtype(), shape_input(ctx, i));
  const Shape row = rows.shape().removed(0);
  require(list->element_shape().accepts(row), "Specified a list with shape ", list->element_shape(),
          " from a tensor with shape ", row);
  return list;
}

void from_tensor(Context& ctx) {
  const Tensor rows = rows_input(ctx, 0);
  std::shared_ptr<TensorList> list = list_for(ctx, 1, rows);
  const Shape row = rows.shape().removed(0);
  for (int64_t i = 0; i < rows.dim(0); ++i) list->push(row_of(rows, i, row));
  ctx.set_output(0, tensor_from_list(std::move(list)));
}

// The indices of input `i`, one for each row; `most` is the highest, -1 if there is none.
std::vector<int64_t> scatter_indices(Context& ctx, int i, const Tensor& rows, int64_t& most) {
  std::vector<int64_t> indices = to_int64s(ctx.input(i));
  require(static_cast<int64_t>(indices.size()) == rows.dim(0),
          "Invalid number of rows in input tensor. Expected: ", indices.size(), " Actual: ", rows.dim(0));
  most = -1;
  for (int64_t index : indices) {
    require(index >= 0, "Indices in TensorListScatter must all be non-negative, got ", index);
    most = std::max(most, index);
  }
  return indices;
}

void write_rows(TensorList& list, const Tensor& rows, const std::vector<int64_t>& indices) {
  const Shape row = rows.shape().removed(0);
  for (size_t i = 0; i < indices.size(); ++i) list.set(indices[i], row_of(rows, static_cast<int64_t>(i), row));
}

void scatter(Context& ctx) {
  const Tensor rows = rows_input(ctx, 0);
  int64_t most = -1;
  std::vector<int64_t> indices = scatter_indices(ctx, 1, rows, most);
  std::shared_ptr<TensorList> list = list_for(ctx, 2, rows);
  int64_t length = ctx.num_inputs() > 3 ? number_input(ctx, 3, "num_elements") : -1;
  require(length >= -1, "TensorListScatter expects num_elements >= -1, found: ", length);
  require(length == -1 || most < length, "TensorListScatter: Trying to scatter at index ", most, " in list with size ",
          length);
  list->resize(length == -1 ? most + 1 : length);
  write_rows(*list, rows, indices);
  ctx.set_output(0, tensor_from_list(std::move(list)));
}

void scatter_into(Context& ctx) {
  const Tensor rows = rows_input(ctx, 1);
  const TensorList& list = list_input(ctx, 0, rows.dtype());
  int64_t most = -1;
  std::vector<int64_t> indices = scatter_indices(ctx, 2, rows, most);
  check_element(list, rows.shape().removed(0), "scatter tensors with incompatible shape into a list");
  TensorList& changed = change_list(ctx);
  if (most >= changed.length()) changed.resize(most + 1);
  write_rows(changed, rows, indices);
}

void split(Context& ctx) {
  const Tensor rows = rows_input(ctx, 0);
  require(ctx.input(2).rank() == 1, "Expected lengths to be a vector, received shape: ", ctx.input(2).shape());
  PartialShape element = shape_input(ctx, 1), any_rows = element;
  if (any_rows.known_rank && !any_rows.dims.empty()) any_rows.dims[0] = -1;
  require(any_rows.accepts(rows.shape()), "tensor shape ", rows.shape(), " is not compatible with element_shape ",
          element);
  auto list = std::make_shared<TensorList>(rows.dtype(), std::move(element));
  int64_t next = 0;
  for (int64_t length : to_int64s(ctx.input(2))) {
    require(length >= 0, "Invalid value in lengths: ", length);
    require(length <= rows.dim(0) - next, "Attempting to slice [", next, ", ", next, " + ", length,
            "] from tensor with length ", rows.dim(0));
    list->push(rows.rows(next, length));
    next += length;
  }
  require(next == rows.dim(0), "Unused values in tensor. Length of tensor: ", rows.dim(0), " Values used: ", next);
  ctx.set_output(0, tensor_from_list(std::move(list)));
}

REGISTER(kernel("TensorListStack").make<Stack>());
REGISTER(kernel("TensorListGather").function<gather>());
REGISTER(kernel("TensorListConcat").make<ConcatOfAttribute>());
REGISTER(kernel("TensorListConcatV2").function<concat_of_inputs>());
REGISTER(kernel("TensorListFromTensor").function<from_tensor>());
REGISTER(kernel("TensorListScatter").function<scatter>());
REGISTER(kernel("TensorListScatterV2").function<scatter>());
REGISTER(kernel("TensorListScatterIntoExistingList").function<scatter_into>());
REGISTER(kernel("TensorListSplit").function<split>());

}  // namespace
}  // namespace thalweg
