// parallel_for: the one place where kernels spread a loop over the cores.
//
// `body(begin, end)` runs on disjoint ranges that cover [0, n). It must not throw: check inputs before. Loops smaller
// than `grain` run on the calling thread, so that small tensors never pay for waking threads.
#pragma once

#include <algorithm>
#include <cstdint>
#ifdef _OPENMP
#include <omp.h>
#endif

namespace thalweg {

// How many threads a kernel may use; 0 restores the default (all cores).
void set_intra_op_threads(int n);
int intra_op_threads();

template <typename Body>
inline void parallel_for(int64_t n, int64_t grain, const Body& body) {
  if (n <= 0) return;
#ifdef _OPENMP
  if (n > grain && !omp_in_parallel()) {
    int64_t most = grain > 0 ? (n + grain - 1) / grain : n;
    int threads = static_cast<int>(std::min<int64_t>(intra_op_threads(), most));
    if (threads > 1) {
#pragma omp parallel num_threads(threads)
      {
        int64_t count = omp_get_num_threads(), me = omp_get_thread_num();
        int64_t begin = n * me / count, end = n * (me + 1) / count;
        if (begin < end) body(begin, end);
      }
      return;
    }
  }
#endif
  body(int64_t{0}, n);
}

}  // namespace thalweg
