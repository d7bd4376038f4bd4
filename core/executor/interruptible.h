// Interruptible: a scope in which the parallel loops of a kernel end early when the kernel's step has ended.
//
// Only for kernels that write nothing but their outputs (thread/interruption.h).
#pragma once

#include <optional>

#include "executor/step.h"
#include "kernel/kernel.h"
#include "thread/interruption.h"

namespace thalweg {

class Interruptible {
 public:
  // Looks at the step if there are so many multiplications that they take some tenths of a second or more.
  Interruptible(Context& ctx, double multiplications) {
    if (multiplications > kWorth) scope_.emplace(ctx.step());
  }

 private:
  static constexpr double kWorth = 4e9;
  struct Scope final : Interruption {
    explicit Scope(Step& step) : step(step) {}
    bool ended() override {
      step.tick();  // Lets the caller handle signals, if this thread is the one that waits for the step.
      return step.interrupted();
    }
    Step& step;
  };
  std::optional<Scope> scope_;
};

}  // namespace thalweg
