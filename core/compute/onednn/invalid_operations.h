// Whether oneDNN met NaN while it computed: x86 takes the maximum of NaN and 0 for 0, so that a fused relu hides NaN,
// but the processor sets a flag of the thread when it compares with NaN.
//
// The flags of the calling thread and of its OpenMP team, on which oneDNN computes, are read. They are raised by 0 *
// inf and inf - inf too. A flag that earlier work has raised on a thread of the team counts as well: so the answer may
// be true without NaN, but is never false with it.
#pragma once

#include "compute/onednn/engine.h"

namespace thalweg {

class InvalidOperations {
 public:
  // Clears the flag of the calling thread. oneDNN works on the same team until the end of this object's life.
  InvalidOperations();
  // Whether there was an invalid operation since; clears the flags.
  bool any();

 private:
  OnednnThreads threads_;
};

}  // namespace thalweg
