// MutexV2, MutexLock, ConsumeMutexLock: the ops of critical sections.
#include "resource/mutex.h"

#include "executor/step.h"
#include "kernel/handle_kernel.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

struct CreateMutex : HandleKernel<Mutex> {
  explicit CreateMutex(const Construction& c) : HandleKernel(c) { prepare(c); }
  std::shared_ptr<Mutex> make() const override { return std::make_shared<Mutex>(); }
  void check(const Mutex&) const override {}
};

struct LockMutex : AsyncKernel {
  explicit LockMutex(const Construction&) {}
  void start(std::shared_ptr<AsyncContext> ctx) override {
    Mutex& mutex = ctx->resource<Mutex>(0);
    Cancellation& cancellation = ctx->step().cancellation();
    mutex.lock(cancellation, [ctx](std::optional<Error> error, std::shared_ptr<Mutex::Lock> lock) {
      if (error) return ctx->fail(*std::move(error));
      Tensor out(DType::variant, Shape{});
      out.flat<ResourceHandle>()->resource = std::move(lock);
      ctx->set_output(0, std::move(out));
      ctx->done();
    });
  }
};

// Keeps the lock alive until it runs, after everything in the critical section.
void consume_lock(Context& ctx) {
  const Tensor& in = ctx.input(0);
  require(in.rank() == 0, "mutex_lock must be a scalar, got shape ", in.shape());
  const Resource* held = in.flat<ResourceHandle>()->resource.get();
  require(dynamic_cast<const Mutex::Lock*>(held) != nullptr, "Expected input to be a MutexLock, but saw ",
          held == nullptr ? "nothing" : held->kind());
}

REGISTER(kernel("MutexV2").make<CreateMutex>());
REGISTER(kernel("MutexLock").make<LockMutex>());
REGISTER(kernel("ConsumeMutexLock").function<consume_lock>());

}  // namespace
}  // namespace thalweg
