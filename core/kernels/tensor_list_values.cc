// Lists of tensors as kernels see them.
#include "kernels/tensor_list_values.h"

#include "resource/tensor_sum.h"

namespace thalweg {

Tensor tensor_from_list(std::shared_ptr<TensorList> list) {
  Tensor out(DType::variant, Shape{});
  out.flat<ResourceHandle>()->resource = std::move(list);
  return out;
}

TensorList* list_in(const ResourceHandle& variant) { return dynamic_cast<TensorList*>(variant.resource.get()); }

const char* kind_of(const ResourceHandle& variant) { return variant.resource ? variant.resource->kind() : "nothing"; }

const TensorList& list_input(Context& ctx, int i) {
  const Tensor& in = ctx.input(i);
  require(in.dtype() == DType::variant, "expected a list of tensors, got a tensor of type ", in.dtype());
  require(in.rank() == 0, "Input list must be a scalar, saw: ", in.shape());
  const ResourceHandle& variant = *in.flat<ResourceHandle>();
  const TensorList* list = list_in(variant);
  require(list != nullptr, "Input handle is not a list: it holds ", kind_of(variant));
  return *list;
}

const TensorList& list_input(Context& ctx, int i, DType dtype) {
  const TensorList& list = list_input(ctx, i);
  require(list.dtype() == dtype, "Invalid data types; op elements ", dtype, " but list elements ", list.dtype());
  return list;
}

Tensor own_lists(Tensor lists) {
  if (!lists.writable()) lists = lists.clone();
  for (int64_t i = 0; i < lists.num_elements(); ++i) {
    std::shared_ptr<Resource>& held = lists.flat<ResourceHandle>()[i].resource;
    if (held.use_count() == 1) {
      // use_count() alone does not order this thread after the last use in another one; giving up a reference does.
      std::shared_ptr<Resource> fence = held;
    } else {
      held = std::make_shared<TensorList>(*list_in(lists.flat<ResourceHandle>()[i]));
    }
  }
  return lists;
}

TensorList& change_list(Context& ctx) {
  ctx.set_output(0, own_lists(ctx.take_input(0)));
  return *list_in(*ctx.output(0).flat<ResourceHandle>());
}

PartialShape shape_input(Context& ctx, int i) {
  const Tensor& in = ctx.input(i);
  require(in.rank() <= 1, "Shape must be at most rank 1 but is rank ", in.rank());
  std::vector<int64_t> dims = to_int64s(in);
  if (in.rank() == 0) {
    require(dims[0] == -1, "The only valid scalar shape tensor is the fully unknown shape specified as -1, got ",
            dims[0]);
    return {};
  }
  require(dims.size() <= Shape::kMaxRank, "a shape has at most ", Shape::kMaxRank, " dimensions, got ", dims.size());
  for (int64_t size : dims) require(size >= -1, "Dimension ", size, " must be >= -1");
  return {true, std::move(dims)};
}

int64_t number_input(Context& ctx, int i, const char* what) {
  require(ctx.input(i).num_elements() == 1, what, " must be a scalar, but got shape: ", ctx.input(i).shape());
  return to_int64(ctx.input(i));
}

void check_element(const TensorList& list, const Shape& shape, const char* what) {
  require(list.element_shape().accepts(shape), "Tried to ", what, ". Op element shape: ", shape,
          " list shape: ", list.element_shape());
}

Tensor unset_element(const PartialShape& shape, DType dtype) { return zeros(dtype, Shape(shape.dims)); }

}  // namespace thalweg
