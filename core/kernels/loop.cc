// _Loop: a lowered while-loop. Inputs: initial values of the loop variables, then invariants; outputs: final values.
#include "executor/loop_program.h"
#include "executor/step.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

struct Loop : Kernel {
  explicit Loop(const Construction& c) : program(c.attr<std::shared_ptr<const LoopProgram>>("program")) {
    require(c.num_inputs() == program->num_variables() + program->num_invariants(), "a loop got ", c.num_inputs(),
            " inputs for ", program->num_variables(), " variables and ", program->num_invariants(), " invariants");
  }
  void compute(Context& ctx) override {
    std::vector<Tensor> values(ctx.num_inputs());
    for (int i = 0; i < ctx.num_inputs(); ++i) values[i] = ctx.take_input(i);
    std::span<Tensor> all(values);
    size_t variables = program->num_variables();
    program->run(all.subspan(0, variables), all.subspan(variables), ctx.step());
    for (size_t i = 0; i < variables; ++i) ctx.set_output(static_cast<int>(i), std::move(values[i]));
  }
  std::shared_ptr<const LoopProgram> program;
};

REGISTER(kernel("_Loop").make<Loop>());

}  // namespace
}  // namespace thalweg
