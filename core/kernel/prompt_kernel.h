// PromptKernel: an asynchronous kernel that mostly need not wait, and then costs no more than a synchronous one.
//
// The executor calls `attempt` first, on the step's thread, with the context of a synchronous kernel. It either does
// all of the work and returns true, or returns false with inputs, outputs and everything else as they were; `start`
// follows then. It throws Error for bad input, and must not block.
#pragma once

#include "kernel/kernel.h"

namespace thalweg {

class PromptKernel : public AsyncKernel {
 public:
  virtual bool attempt(Context& ctx) = 0;
};

// A prompt kernel without inputs whose only output arrives from elsewhere: waiting for it needs no context of its own.
class ArrivingKernel : public PromptKernel {
 public:
  using Arrived = std::function<void(std::optional<Error>, Tensor)>;
  // Calls `arrived` once, on any thread; an unset tensor is the dead token. The step lives until then.
  virtual void await(Step& step, FrameIteration iteration, Arrived arrived) = 0;
  void start(std::shared_ptr<AsyncContext> ctx) final {
    AsyncContext& context = *ctx;
    await(context.step(), context.iteration(), [ctx = std::move(ctx)](std::optional<Error> error, Tensor value) {
      if (error) return ctx->fail(*error);
      ctx->set_output(0, std::move(value));
      ctx->done();
    });
  }
};

}  // namespace thalweg
