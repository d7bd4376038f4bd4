// Assigning to a slice of a variable.
#include "compute/copies/slice_spec.h"
#include "kernel/registry.h"
#include "resource/variable.h"

namespace thalweg {
namespace {

struct SliceAssign : Kernel {
  explicit SliceAssign(const Construction& c) : masks(c) {}
  void compute(Context& ctx) override {
    Variable& variable = ctx.resource<Variable>(0);
    const Tensor& value = ctx.input(4);
    require(variable.dtype() == value.dtype(), "variable '", variable.name(), "' has type ", variable.dtype(),
            ", the value to assign has type ", value.dtype());
    variable.update([&](Tensor& target) {
      SliceBox box = resolve_slice(target.shape(), ctx.input(1), ctx.input(2), ctx.input(3), masks);
      write_slice(target, box, value);
    });
  }
  SliceMasks masks;
};

REGISTER(kernel("ResourceStridedSliceAssign").make<SliceAssign>());

}  // namespace
}  // namespace thalweg
