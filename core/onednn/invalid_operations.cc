// The floating-point flags of the calling thread and its OpenMP team.
#include "onednn/invalid_operations.h"

#include <cfenv>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "onednn/engine.h"

namespace thalweg {
namespace {

bool take() {
  const bool raised = std::fetestexcept(FE_INVALID) != 0;
  if (raised) std::feclearexcept(FE_INVALID);
  return raised;
}

}  // namespace

void clear_invalid_operations() { take(); }

bool had_invalid_operations() {
  bool any = take();
#ifdef _OPENMP
  OnednnThreads threads;
  if (omp_get_max_threads() > 1) {
#pragma omp parallel reduction(|| : any)
    any = take() || any;
  }
#endif
  return any;
}

}  // namespace thalweg
