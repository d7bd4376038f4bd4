// Whether oneDNN met NaN while it computed: x86 takes the maximum of NaN and 0 for 0, so that a fused relu hides NaN,
// but the processor notes (in a flag of the thread) that one of the two was none that can be compared.
//
// The flags of the calling thread and of its OpenMP team, on which oneDNN computes, are looked at. They are raised by
// 0 * inf and inf - inf too. A flag that something else had raised before on a thread of the team counts as well: the
// answer may be true without NaN, then, but is never false with it.
#pragma once

#include "compute/onednn/engine.h"

namespace thalweg {

class InvalidOperations {
 public:
  // Forgets what happened on the calling thread. oneDNN works on the same team until the end of this object's life.
  InvalidOperations();
  // Whether there was an invalid operation since; forgets it.
  bool any();

 private:
  OnednnThreads threads_;
};

}  // namespace thalweg
