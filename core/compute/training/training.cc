// What all optimizer steps check before they write.
#include "compute/training/training.h"

namespace thalweg::training {

void find_variables(Context& ctx, DType dtype, std::span<Variable*> variables) {
  for (size_t i = 0; i < variables.size(); ++i) {
    variables[i] = &ctx.resource<Variable>(static_cast<int>(i));
    require(variables[i]->dtype() == dtype, "variable '", variables[i]->name(), "' has type ", variables[i]->dtype(),
            ", this op works on type ", dtype);
  }
}

void check_shapes(const JointUpdate& update, std::span<Variable* const> variables, const Tensor& gradient,
                  const Tensor* indices) {
  const Shape& shape = update.old_value(0).shape();
  for (size_t i = 1; i < variables.size(); ++i)
    require(update.old_value(i).shape() == shape, "variables '", variables[0]->name(), "' and '", variables[i]->name(),
            "' do not have the same shape: ", shape, " and ", update.old_value(i).shape());
  if (indices == nullptr) {
    require(gradient.shape() == shape, "variable '", variables[0]->name(), "' and its gradient do not have the same ",
            "shape: ", shape, " and ", gradient.shape());
    return;
  }
  require(indices->rank() == 1, "indices must be one-dimensional, got shape ", indices->shape());
  require(shape.rank() >= 1, "variable '", variables[0]->name(), "' must be at least 1 dimensional, got a scalar");
  bool fits = gradient.rank() == shape.rank();
  for (int d = 1; fits && d < shape.rank(); ++d) fits = gradient.dim(d) == shape[d];
  require(fits, "variable '", variables[0]->name(), "' of shape ", shape, " and a sparse gradient of shape ",
          gradient.shape(), " must match from dimension 1 on");
  require(gradient.dim(0) == indices->dim(0),
          "the gradient must be the same size as indices in the first dimension: ", gradient.shape(), " and ",
          indices->shape());
}

double read_scalar(const Tensor& tensor, const char* name) {
  require(tensor.rank() == 0, name, " is not a scalar: it has shape ", tensor.shape());
  double value = 0;
  dispatch(tensor.dtype(), Join<Floats, Types<DType::int64>>{},
           [&]<typename T>() { value = static_cast<double>(*tensor.flat<T>()); });
  return value;
}

}  // namespace thalweg::training
