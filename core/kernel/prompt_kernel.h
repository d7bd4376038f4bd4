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

}  // namespace thalweg
