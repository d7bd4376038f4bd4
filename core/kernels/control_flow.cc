// Control-flow kernels: they pick or pass values; frames and dead tokens are the executor's.
#include "kernel/registry.h"

namespace thalweg {
namespace {

void forward(Context& ctx) { ctx.set_output(0, ctx.take_input(0)); }

void switch_(Context& ctx) {
  const Tensor& predicate = ctx.input(1);
  require(predicate.num_elements() == 1, "Switch needs a scalar predicate, got shape ", predicate.shape());
  bool taken = *predicate.flat<bool>();
  ctx.set_output(taken ? 1 : 0, ctx.take_input(0));
}

// Exactly one input is live when a Merge runs.
void merge(Context& ctx) {
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    if (ctx.input(i).defined()) {
      ctx.set_output(0, ctx.take_input(i));
      ctx.set_output(1, Tensor::scalar<int32_t>(i));
      return;
    }
  }
  fail(Code::internal, "Merge ran without a live input");
}

void no_op(Context&) {}

// The process is not ours to end: the step fails instead.
struct Abort : Kernel {
  explicit Abort(const Construction& c) : message(c.attr<std::string>("error_msg")) {}
  void compute(Context&) override { fail(Code::aborted, message.empty() ? "the step was aborted" : message); }
  std::string message;
};

REGISTER(kernel("Switch").function<switch_>());
REGISTER(kernel("RefSwitch").function<switch_>());
REGISTER(kernel("Merge").function<merge>());
REGISTER(kernel("RefMerge").function<merge>());
REGISTER(kernel("Enter").function<forward>());
REGISTER(kernel("RefEnter").function<forward>());
REGISTER(kernel("Exit").function<forward>());
REGISTER(kernel("RefExit").function<forward>());
REGISTER(kernel("NextIteration").function<forward>());
REGISTER(kernel("RefNextIteration").function<forward>());
REGISTER(kernel("LoopCond").function<forward>());
REGISTER(kernel("NoOp").function<no_op>());
REGISTER(kernel("Abort").make<Abort>());
REGISTER(kernel("ControlTrigger").function<no_op>());

}  // namespace
}  // namespace thalweg
