// TemporaryVariable: a variable that lives as long as one step's handles to it.
#include "executor/step.h"
#include "kernel/registry.h"
#include "resource/variable.h"
#include "tensor/handle_tensor.h"

namespace thalweg {
namespace {

struct Temporary : Kernel {
  explicit Temporary(const Construction& c)
      : dtype(c.attr<DType>("dtype")), shape(c.attr<PartialShape>("shape")), name(c.def().name) {
    require(shape.fully_defined(), "a temporary variable needs a fully defined shape, got ", shape);
  }
  void compute(Context& ctx) override {
    auto variable = std::make_shared<Variable>(name, "", dtype, shape);
    Tensor zeros(dtype, Shape(shape.dims));
    if (is_plain(dtype) && zeros.bytes() > 0) std::memset(zeros.raw(), 0, zeros.bytes());
    variable->assign(std::move(zeros), false);
    ctx.set_output(0, handle_tensor({ctx.device().name, ctx.step().container(), name, std::move(variable)}));
  }
  DType dtype;
  PartialShape shape;
  std::string name;
};

REGISTER(kernel("TemporaryVariable").make<Temporary>());

}  // namespace
}  // namespace thalweg
