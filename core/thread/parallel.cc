// The process-wide number of threads inside a kernel.
#include "thread/parallel.h"

#include <atomic>
#include <thread>

namespace thalweg {
namespace {

std::atomic<int> threads{0};

int default_threads() {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}

}  // namespace

void set_intra_op_threads(int n) { threads.store(n); }

int intra_op_threads() {
  int n = threads.load(std::memory_order_relaxed);
  return n > 0 ? n : default_threads();
}

}  // namespace thalweg
