// Datasets as tensors, and the functions that the kernels of datasets share.
#include "data/dataset.h"

#include "function/function.h"

namespace thalweg {

Tensor tensor_from_dataset(DatasetPtr dataset) {
  Tensor out(DType::variant, Shape{});
  // A dataset is immutable; the handle's type knows no const.
  out.flat<ResourceHandle>()->resource = std::const_pointer_cast<Dataset>(std::move(dataset));
  return out;
}

DatasetPtr dataset_from_tensor(const Tensor& tensor) {
  require(tensor.dtype() == DType::variant && tensor.num_elements() == 1, "expected a dataset, got ", tensor.dtype(),
          tensor.shape());
  const ResourceHandle& handle = *tensor.flat<ResourceHandle>();
  auto dataset = std::dynamic_pointer_cast<Dataset>(handle.resource);
  require(dataset != nullptr, "expected a dataset, got a variant that holds ",
          handle.resource ? handle.resource->kind() : "nothing");
  return dataset;
}

DatasetPtr dataset_input(Context& ctx, int i) { return dataset_from_tensor(ctx.input(i)); }

int64_t int_input(Context& ctx, int i, const char* what) {
  require(ctx.input(i).rank() == 0, what, " must be a scalar, got shape ", ctx.input(i).shape());
  return to_int64(ctx.input(i));
}

bool bool_input(Context& ctx, int i, const char* what) {
  const Tensor& t = ctx.input(i);
  require(t.dtype() == DType::boolean && t.rank() == 0, what, " must be one bool, got ", t.dtype(), t.shape());
  return *t.flat<bool>();
}

const std::string& string_input(Context& ctx, int i, const char* what) {
  const Tensor& t = ctx.input(i);
  require(t.dtype() == DType::string && t.rank() == 0, what, " must be one string, got ", t.dtype(), t.shape());
  return *t.strings();
}

Signature declared_signature(const NodeDef& def, const char* types) {
  Signature signature{def.attr<std::vector<DType>>(types), def.attr<std::vector<PartialShape>>("output_shapes")};
  require(signature.types.size() == signature.shapes.size(), "a dataset with ", signature.types.size(), " types and ",
          signature.shapes.size(), " shapes");
  return signature;
}

Signature same_types(Context& ctx, const Dataset& input) {
  Signature declared = declared_signature(ctx.def());
  require(declared.types == input.signature().types, "the node declares elements of types ", str(declared.types),
          ", but its input has ", str(input.signature().types));
  return declared;
}

bool runs_python(Context& ctx) {
  for (const auto& [name, value] : ctx.def().attrs)
    if (const auto* function = std::get_if<std::shared_ptr<Function>>(&value))
      if (*function && (*function)->runs_python()) return true;
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    const Tensor& input = ctx.input(i);
    if (input.dtype() != DType::variant || input.num_elements() != 1) continue;
    auto dataset = std::dynamic_pointer_cast<Dataset>(input.flat<ResourceHandle>()->resource);
    if (dataset && dataset->pulls_may_wait()) return true;
  }
  return false;
}

std::string str(const std::vector<DType>& types) {
  std::string out = "(";
  for (DType type : types) out += (out.size() > 1 ? ", " : "") + std::string(name_of(type));
  return out + ")";
}

}  // namespace thalweg
