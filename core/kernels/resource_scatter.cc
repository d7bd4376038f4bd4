// Reading and updating parts of a variable: ResourceGather, ResourceScatter*, their Nd forms, and assigning to a slice.
#include "compute/copies/scatter.h"
#include "compute/copies/slice_spec.h"
#include "kernel/registry.h"
#include "resource/variable.h"

namespace thalweg {
namespace {

// Runs `body`, and adds to its errors which variable they are about.
template <typename Body>
auto about(const Variable& variable, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    fail(error.code(), error.message(), " (variable '", variable.name(), "')");
  }
}

void check_type(const Variable& variable, DType dtype) {
  require(variable.dtype() == dtype, "variable '", variable.name(), "' has type ", variable.dtype(),
          ", this op works on type ", dtype);
}

struct Gather : Kernel {
  explicit Gather(const Construction& c) : batch_dims(c.attr<int64_t>("batch_dims", 0)) {}
  void compute(Context& ctx) override {
    Variable& variable = ctx.resource<Variable>(0);
    const Tensor& indices = ctx.input(1);
    check_type(variable, ctx.output_dtype(0));
    Tensor params = variable.read();
    int64_t axis = batch_dims < 0 ? batch_dims + indices.rank() : batch_dims;
    ctx.set_output(0, about(variable, [&] { return gather(params, indices, axis, batch_dims); }));
  }
  int64_t batch_dims;
};

void gather_tuples(Context& ctx) {
  Variable& variable = ctx.resource<Variable>(0);
  check_type(variable, ctx.output_dtype(0));
  Tensor params = variable.read();
  ctx.set_output(0, about(variable, [&] { return gather_nd(params, ctx.input(1)); }));
}

using Scatter = void (*)(Combine, Tensor&, const Tensor&, const Tensor&);

template <Scatter scatter, Combine how>
void update_parts(Context& ctx) {
  Variable& variable = ctx.resource<Variable>(0);
  check_type(variable, ctx.input(2).dtype());
  variable.update([&](Tensor& value) { about(variable, [&] { scatter(how, value, ctx.input(1), ctx.input(2)); }); });
}

struct StridedSliceAssign : Kernel {
  explicit StridedSliceAssign(const Construction& c) : masks(c) {}
  void compute(Context& ctx) override {
    Variable& variable = ctx.resource<Variable>(0);
    check_type(variable, ctx.input(4).dtype());
    variable.update([&](Tensor& value) {
      about(variable, [&] {
        SliceBox box = resolve_slice(value.shape(), ctx.input(1), ctx.input(2), ctx.input(3), masks);
        write_slice(value, box, ctx.input(4));
      });
    });
  }
  SliceMasks masks;
};

REGISTER(kernel("ResourceGather").make<Gather>());
REGISTER(kernel("ResourceGatherNd").function<gather_tuples>());
REGISTER(kernel("ResourceStridedSliceAssign").make<StridedSliceAssign>());

#define REGISTER_ROWS(Name, how, ...) \
  REGISTER(kernel("ResourceScatter" Name) __VA_ARGS__.function<update_parts<scatter_rows, Combine::how>>())
#define REGISTER_TUPLES(Name, how, ...) \
  REGISTER(kernel("ResourceScatterNd" Name) __VA_ARGS__.function<update_parts<scatter_nd, Combine::how>>())
REGISTER_ROWS("Update", assign);
REGISTER_ROWS("Add", add, .types("dtype", Numbers{}));
REGISTER_ROWS("Sub", sub, .types("dtype", Numbers{}));
REGISTER_ROWS("Mul", mul, .types("dtype", Numbers{}));
REGISTER_ROWS("Div", div, .types("dtype", Numbers{}));
REGISTER_ROWS("Min", min, .types("dtype", Reals{}));
REGISTER_ROWS("Max", max, .types("dtype", Reals{}));
REGISTER_TUPLES("Update", assign);
REGISTER_TUPLES("Add", add, .types("T", Numbers{}));
REGISTER_TUPLES("Sub", sub, .types("T", Numbers{}));
REGISTER_TUPLES("Min", min, .types("T", Reals{}));
REGISTER_TUPLES("Max", max, .types("T", Reals{}));

}  // namespace
}  // namespace thalweg
