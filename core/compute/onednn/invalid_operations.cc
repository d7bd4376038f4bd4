// The floating-point flags of the calling thread and its OpenMP team.
#include "compute/onednn/invalid_operations.h"

#include <cfenv>

#include "thread/parallel.h"

namespace thalweg {
namespace {

bool take() {
  const bool raised = std::fetestexcept(FE_INVALID) != 0;
  if (raised) std::feclearexcept(FE_INVALID);
  return raised;
}

}  // namespace

InvalidOperations::InvalidOperations() : threads_(intra_op_threads()) { take(); }

bool InvalidOperations::any() {
  bool any = take();
#ifdef _OPENMP
  if (threads_.count() > 1) {
#pragma omp parallel reduction(|| : any)
    any = take() || any;
  }
#endif
  return any;
}

}  // namespace thalweg
