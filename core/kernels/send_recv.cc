// _Send and _Recv: the two ends of an edge that crosses devices, or a partial run's boundary.
#include "executor/step.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

std::string key_of(const Construction& c) {
  return cat(c.attr<std::string>("send_device", ""), ";", c.attr<int64_t>("send_device_incarnation", 0), ";",
             c.attr<std::string>("recv_device", ""), ";", c.attr<std::string>("tensor_name"));
}

std::string with_iteration(const std::string& key, uint64_t iteration) {
  return iteration == 0 ? key : cat(key, ";", iteration);
}

Rendezvous& rendezvous_of(Context& ctx) {
  if (!ctx.step().rendezvous()) fail(Code::internal, "this step has no rendezvous");
  return *ctx.step().rendezvous();
}

struct Send : Kernel {
  explicit Send(const Construction& c) : key(key_of(c)) {}
  void compute(Context& ctx) override {
    rendezvous_of(ctx).send(with_iteration(key, ctx.iteration()), ctx.take_input(0).owned());
  }
  std::string key;
};

struct Recv : AsyncKernel {
  explicit Recv(const Construction& c) : key(key_of(c)) {}
  void start(std::shared_ptr<AsyncContext> ctx) override {
    Rendezvous& rendezvous = rendezvous_of(*ctx);
    // An aborted step aborts its rendezvous, which answers every waiting Recv.
    rendezvous.recv(with_iteration(key, ctx->iteration()), [ctx](std::optional<Error> error, Tensor value) {
      if (error) {
        ctx->fail(*error);
      } else {
        ctx->set_output(0, std::move(value));
        ctx->done();
      }
    });
  }
  std::string key;
};

REGISTER(kernel("_Send").make<Send>());
REGISTER(kernel("_Recv").make<Recv>());

}  // namespace
}  // namespace thalweg
