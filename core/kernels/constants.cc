// Const, and the kernels that only pass their input on.
#include "kernel/registry.h"

namespace thalweg {
namespace {

struct Const : Kernel {
  explicit Const(const Construction& c) : value(c.attr<Tensor>("value")) {
    require(value.dtype() == c.output_dtype(0), "the value of a Const has type ", value.dtype(),
            ", its attribute dtype is ", c.output_dtype(0));
  }
  void compute(Context& ctx) override { ctx.set_output(0, value); }
  Tensor value;
};

void identity(Context& ctx) { ctx.set_output(0, ctx.take_input(0)); }

void identity_n(Context& ctx) {
  for (int i = 0; i < ctx.num_inputs(); ++i) ctx.set_output(i, ctx.take_input(i));
}

struct Placeholder : Kernel {
  explicit Placeholder(const Construction& c) : dtype(c.output_dtype(0)) {}
  void compute(Context& ctx) override {
    fail(Code::invalid_argument, "You must feed a value for placeholder tensor '", ctx.def().name, "' with dtype ",
         dtype);
  }
  DType dtype;
};

REGISTER(kernel("Const").make<Const>());
REGISTER(kernel("Identity").function<identity>());
REGISTER(kernel("StopGradient").function<identity>());
REGISTER(kernel("PreventGradient").function<identity>());
REGISTER(kernel("GuaranteeConst").function<identity>());
REGISTER(kernel("Snapshot").function<identity>());
REGISTER(kernel("PlaceholderWithDefault").function<identity>());
REGISTER(kernel("IdentityN").function<identity_n>());
REGISTER(kernel("Placeholder").make<Placeholder>());
REGISTER(kernel("PlaceholderV2").make<Placeholder>());

}  // namespace
}  // namespace thalweg
