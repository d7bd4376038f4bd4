// _Send and _Recv: the two ends of an edge that crosses devices, or a partial run's boundary.
#include "executor/step.h"
#include "executor/transfer_name.h"
#include "kernel/prompt_kernel.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

Rendezvous& rendezvous_of(Step& step) {
  if (!step.rendezvous()) fail(Code::internal, "this step has no rendezvous");
  return *step.rendezvous();
}

struct Send : Kernel {
  explicit Send(const Construction& c) : key(transfer_name(c.def())) {}
  void compute(Context& ctx) override {
    rendezvous_of(ctx.step()).send(key, ctx.iteration(), ctx.take_input(0).owned());
  }
  Rendezvous::Key key;
};

struct Recv : ArrivingKernel {
  explicit Recv(const Construction& c) : key(transfer_name(c.def())) {}
  bool attempt(Context& ctx) override {
    Tensor value;
    if (!rendezvous_of(ctx.step()).try_recv(key, ctx.iteration(), value)) return false;
    ctx.set_output(0, std::move(value));
    return true;
  }
  void await(Step& step, uint64_t iteration, Arrived arrived) override {
    // An aborted step aborts its rendezvous, which answers every waiting Recv.
    rendezvous_of(step).recv(key, iteration, std::move(arrived));
  }
  Rendezvous::Key key;
};

REGISTER(kernel("_Send").make<Send>());
REGISTER(kernel("_Recv").make<Recv>());

}  // namespace
}  // namespace thalweg
