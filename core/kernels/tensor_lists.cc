// Lists of tensors: making them, and adding, reading and changing single elements; sums and zeros of lists.
#include "kernel/registry.h"
#include "kernels/tensor_list_values.h"
#include "resource/tensor_sum.h"

namespace thalweg {
namespace {

constexpr const char* kAppend = "append a tensor with incompatible shape to a list";

struct Empty : Kernel {
  explicit Empty(const Construction& c) : dtype(c.attr<DType>("element_dtype")) {}
  void compute(Context& ctx) override {
    require(ctx.input(1).rank() == 0, "max_num_elements expected to be a scalar but got shape: ", ctx.input(1).shape());
    ctx.set_output(
        0, tensor_from_list(std::make_shared<TensorList>(dtype, shape_input(ctx, 0), 0, to_int64(ctx.input(1)))));
  }
  DType dtype;
};

struct Reserve : Kernel {
  explicit Reserve(const Construction& c) : dtype(c.attr<DType>("element_dtype")) {}
  void compute(Context& ctx) override {
    require(ctx.input(1).rank() == 0,
            "The num_elements to reserve must be a scalar, but got shape: ", ctx.input(1).shape());
    const int64_t length = to_int64(ctx.input(1));
    require(length >= 0, "The num_elements to reserve must be a non negative number, but got ", length);
    ctx.set_output(0, tensor_from_list(std::make_shared<TensorList>(dtype, shape_input(ctx, 0), length)));
  }
  DType dtype;
};

void resize(Context& ctx) {
  list_input(ctx, 0);
  require(ctx.input(1).rank() == 0, "size must be a scalar, but got shape: ", ctx.input(1).shape());
  int64_t length = to_int64(ctx.input(1));
  require(length >= 0, "TensorListResize expects size to be non-negative. Got: ", length);
  change_list(ctx).resize(length);
}

void length(Context& ctx) { ctx.set_output(0, Tensor::scalar(static_cast<int32_t>(list_input(ctx, 0).length()))); }

void element_shape(Context& ctx) {
  const PartialShape& shape = list_input(ctx, 0).element_shape();
  Tensor& out = ctx.allocate(0, shape.known_rank ? Shape{static_cast<int64_t>(shape.dims.size())} : Shape{});
  dispatch(out.dtype(), Indices{}, [&]<typename T>() {
    T* to = out.flat<T>();
    if (!shape.known_rank) *to = -1;
    for (size_t i = 0; i < shape.dims.size(); ++i) {
      require(shape.dims[i] <= std::numeric_limits<T>::max(), "the size ", shape.dims[i], " is too large for ",
              out.dtype());
      to[i] = static_cast<T>(shape.dims[i]);
    }
  });
}

void push_back(Context& ctx) {
  const Tensor& value = ctx.input(1);
  const TensorList& list = list_input(ctx, 0, value.dtype());
  check_element(list, value.shape(), kAppend);
  require(list.most() < 0 || list.length() < list.most(),
          "Tried to push item into a full list, list size: ", list.length(), " max_num_elements: ", list.most());
  change_list(ctx).push(ctx.take_input(1));
}

void push_back_batch(Context& ctx) {
  const Tensor& lists = ctx.input(0);
  const Tensor values = ctx.input(1).owned();
  require(values.rank() >= 1, "Expected tensor to be at least a vector, but saw shape: ", values.shape());
  require(lists.rank() == 1, "Expected input_handles to be a vector, but saw shape: ", lists.shape());
  require(values.dim(0) == lists.dim(0), "Expected tensor.shape[0] == input_handles.size, but saw ", values.dim(0),
          " vs. ", lists.dim(0));
  const Shape shape = values.shape().removed(0);
  for (int64_t i = 0; i < lists.dim(0); ++i) {
    const ResourceHandle& variant = lists.flat<ResourceHandle>()[i];
    const TensorList* list = list_in(variant);
    require(list != nullptr, "Input handle at index ", i, " is not a list: it holds ", kind_of(variant));
    require(list->dtype() == values.dtype(), "Invalid data type at index ", i, "; op elements ", values.dtype(),
            " but list elements ", list->dtype());
    check_element(*list, shape, kAppend);
  }
  Tensor out = own_lists(ctx.take_input(0));
  for (int64_t i = 0; i < out.dim(0); ++i)
    list_in(out.flat<ResourceHandle>()[i])->push(values.rows(i, 1).reshaped(shape));
  ctx.set_output(0, std::move(out));
}

void pop_back(Context& ctx) {
  const TensorList& list = list_input(ctx, 0, ctx.output_dtype(1));
  require(list.length() > 0, "Trying to pop from an empty list.");
  PartialShape shape;
  if (!list.at(list.length() - 1).defined()) {
    shape = merged(shape_input(ctx, 1), list.element_shape());
    require(shape.fully_defined(),
            "Trying to read an uninitialized tensor but element_shape is not fully defined: ", shape);
  }
  Tensor value = change_list(ctx).pop();
  ctx.set_output(1, value.defined() ? std::move(value) : unset_element(shape, ctx.output_dtype(1)));
}

void get_item(Context& ctx) {
  const TensorList& list = list_input(ctx, 0, ctx.output_dtype(0));
  int64_t index = number_input(ctx, 1, "index");
  require(index >= 0 && index < list.length(), "Trying to access element ", index, " in a list with ", list.length(),
          " elements.");
  Tensor value = list.at(index);
  if (!value.defined()) {
    PartialShape shape = merged(shape_input(ctx, 2), list.element_shape());
    if (!shape.fully_defined())
      for (const Tensor& other : list.stored())
        if (other.defined()) shape = merged(shape, exactly(other.shape()));
    require(shape.fully_defined(),
            "Trying to read an uninitialized tensor but element_shape is not fully defined: ", shape,
            " and no list element is set.");
    value = unset_element(shape, list.dtype());
  }
  ctx.set_output(0, std::move(value));
}

struct SetItem : Kernel {
  explicit SetItem(const Construction& c) : grows(c.attr<bool>("resize_if_index_out_of_bounds", false)) {}
  void compute(Context& ctx) override {
    const Tensor& value = ctx.input(2);
    const TensorList& list = list_input(ctx, 0, value.dtype());
    int64_t index = number_input(ctx, 1, "index");
    require(index >= 0 && (grows || index < list.length()), "Trying to modify element ", index, " in a list with ",
            list.length(), " elements.");
    check_element(list, value.shape(), "set a tensor with incompatible shape at a list index");
    TensorList& changed = change_list(ctx);
    if (index >= changed.length()) changed.resize(index + 1);
    changed.set(index, ctx.take_input(2));
  }
  bool grows;
};

void concat_lists(Context& ctx) {
  Tensor a = ctx.take_input(0);
  const Tensor& b = ctx.input(1);
  DType dtype = ctx.def().attr<DType>("element_dtype");
  require(a.shape() == b.shape(), "Incompatible input TensorList tensor shapes: ", a.shape(), " vs. ", b.shape());
  auto checked = [&](const Tensor& lists, int64_t i, const char* name) {
    const ResourceHandle& variant = lists.flat<ResourceHandle>()[i];
    const TensorList* list = list_in(variant);
    require(list != nullptr, name, " is not a TensorList at index ", i, ": it holds ", kind_of(variant));
    require(list->dtype() == dtype, name, "[", i, "].dtype != element_dtype.  Saw: ", list->dtype(), " vs. ", dtype);
    return list;
  };
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const TensorList *first = checked(a, i, "input_a"), *second = checked(b, i, "input_b");
    const PartialShape &x = first->element_shape(), &y = second->element_shape();
    require(x.known_rank == y.known_rank && x.dims == y.dims,
            "input_a and input_b TensorList element shapes are not identical at index ", i, ".  Saw ", x, " vs. ", y);
    if (first->length() + second->length() > TensorList::kMostElements)
      fail(Code::resource_exhausted, "a list of ", first->length() + second->length(), " elements is too long");
  }
  Tensor out = own_lists(std::move(a));
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    TensorList* list = list_in(out.flat<ResourceHandle>()[i]);
    const TensorList* more = list_in(b.flat<ResourceHandle>()[i]);
    const int64_t start = list->length();
    list->resize(start + more->length());
    int64_t next = start;
    for (const Tensor& value : more->stored()) {
      if (value.defined()) list->set(next, value);
      ++next;
    }
  }
  ctx.set_output(0, std::move(out));
}

template <DType... Ds>
bool is_one_of(DType dtype, Types<Ds...>) {
  return ((dtype == Ds) || ...);
}

const TensorList& summand(const Tensor& variant) {
  const ResourceHandle& held = *variant.flat<ResourceHandle>();
  const TensorList* list = list_in(held);
  if (list == nullptr) fail(Code::internal, "variants can be added if they hold lists of tensors, not ", kind_of(held));
  return *list;
}

// a + b, element by element; an element that is unset in one of them is the other's.
Tensor sum_of_lists(Tensor a, const Tensor& b) {
  require(a.rank() == 0 && b.rank() == 0, "AddN of variants that are not scalars is not supported; got shapes ",
          a.shape(), " and ", b.shape());
  const TensorList &x = summand(a), &y = summand(b);
  require(x.dtype() == y.dtype(), "Trying to add two lists of tensors of different dtypes. One is ", x.dtype(),
          " and the other is ", y.dtype());
  require(x.length() == y.length(), "Trying to add two lists of tensors with different lengths. One is ", x.length(),
          " and the other is ", y.length());
  PartialShape shape = merged(x.element_shape(), y.element_shape());
  require(is_one_of(x.dtype(), Join<Numbers, Types<DType::variant>>{}), "Trying to add lists of unsupported dtype ",
          x.dtype());
  Tensor out = own_lists(std::move(a));
  TensorList& total = *list_in(*out.flat<ResourceHandle>());
  total.set_element_shape(std::move(shape));
  int64_t index = 0;
  for (const Tensor& more : y.stored()) {
    const int64_t at = index++;
    if (!more.defined()) continue;
    if (!total.at(at).defined()) {
      total.set(at, more);
      continue;
    }
    Tensor& sum_so_far = total.stored()[static_cast<size_t>(at)];
    require(sum_so_far.shape() == more.shape(), "Trying to add two tensors with incompatible element shapes. One is ",
            sum_so_far.shape(), " and the other is ", more.shape());
    Tensor before = std::move(sum_so_far);
    total.set(at,
              total.dtype() == DType::variant ? sum_of_lists(std::move(before), more) : sum(std::move(before), more));
  }
  return out;
}

void add_n(Context& ctx) {
  Tensor total = ctx.take_input(0);
  for (int i = 1; i < ctx.num_inputs(); ++i) total = sum_of_lists(std::move(total), ctx.input(i));
  ctx.set_output(0, std::move(total));
}

Tensor zeros_of_list(const Tensor& variant) {
  require(variant.rank() == 0, "ZerosLike of variants that are not scalars is not supported; got shape ",
          variant.shape());
  const ResourceHandle& held = *variant.flat<ResourceHandle>();
  const TensorList* list = list_in(held);
  if (list == nullptr) fail(Code::internal, "there are zeros like lists of tensors, not like ", kind_of(held));
  auto out = std::make_shared<TensorList>(list->dtype(), list->element_shape(), list->length());
  require(list->stored().empty() || is_one_of(list->dtype(), Join<NumbersAndBool, Types<DType::variant>>{}),
          "Trying to compute zeros_like for a list of unsupported dtype ", list->dtype());
  int64_t index = 0;
  for (const Tensor& value : list->stored()) {
    if (value.defined())
      out->set(index, value.dtype() == DType::variant ? zeros_of_list(value) : zeros(value.dtype(), value.shape()));
    ++index;
  }
  return tensor_from_list(std::move(out));
}

void zeros_like(Context& ctx) { ctx.set_output(0, zeros_of_list(ctx.input(0))); }

// The gradient of an argument of a function that no gradient reaches: variants that are no lists have no zeros,
// and nothing reads the value that stands in their place.
void zeros_or_same(Context& ctx) {
  const Tensor& in = ctx.input(0);
  const bool list = in.rank() == 0 && list_in(*in.flat<ResourceHandle>()) != nullptr;
  ctx.set_output(0, list ? zeros_of_list(in) : ctx.take_input(0));
}

REGISTER(kernel("EmptyTensorList").make<Empty>());
REGISTER(kernel("TensorListReserve").make<Reserve>());
REGISTER(kernel("TensorListResize").function<resize>());
REGISTER(kernel("TensorListLength").function<length>());
REGISTER(kernel("TensorListElementShape").function<element_shape>());
REGISTER(kernel("TensorListPushBack").function<push_back>());
REGISTER(kernel("TensorListPushBackBatch").function<push_back_batch>());
REGISTER(kernel("TensorListPopBack").function<pop_back>());
REGISTER(kernel("TensorListGetItem").function<get_item>());
REGISTER(kernel("TensorListSetItem").make<SetItem>());
REGISTER(kernel("TensorListConcatLists").function<concat_lists>());
REGISTER(kernel("AddN").types("T", Types<DType::variant>{}).function<add_n>());
REGISTER(kernel("ZerosLike").types("T", Types<DType::variant>{}).function<zeros_like>());
REGISTER(kernel("_VariantZeros").function<zeros_or_same>());

}  // namespace
}  // namespace thalweg
