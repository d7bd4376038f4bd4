// parallel_for: the one place where kernels spread a loop over the cores.
//
// `body(begin, end)` runs on disjoint ranges that cover [0, n). It must not throw: check inputs before. Loops of at
// most `grain` iterations run on the calling thread, so that small tensors never pay for waking threads.
//
// The caller works too, and ranges are handed out in pieces: a helper that the system does not schedule in time costs
// nothing, because the others take its share. (An OpenMP team waits for every member; on a busy machine that made loops
// an order of magnitude slower. See docs/decisions/0005-parallel-loops.md.) A loop inside a loop runs serially. Any
// number of threads may call at once.
#pragma once

#include <algorithm>
#include <cstdint>

namespace thalweg {

// How many threads a kernel may use; 0 restores the default (all cores).
void set_intra_op_threads(int n);
// As many as that, or this thread's share of them at the moment (thread/share_scope.h).
int intra_op_threads();
int undivided_intra_op_threads();

// The time that other threads have spent on loops of this thread, in nanoseconds, while a ParallelMeter lives on it: a
// loop of three threads that takes 5 ms counts 10.
class ParallelMeter {
 public:
  ParallelMeter();
  ~ParallelMeter();
  ParallelMeter(const ParallelMeter&) = delete;
  int64_t elsewhere() const { return elsewhere_; }
  // For code that spreads loops over threads in its own way: so many threads work, as long as the object lives.
  class Loop {
   public:
    explicit Loop(int threads);
    ~Loop();
    Loop(const Loop&) = delete;

   private:
    const int threads_;
    int64_t began_ = 0;
  };

 private:
  ParallelMeter* const outer_;
  int64_t elsewhere_ = 0;
};

// Calls invoke(body, begin, end) from several threads until [0, n) is covered.
void run_in_parallel(int64_t n, int64_t grain, const void* body, void (*invoke)(const void*, int64_t, int64_t));

template <typename Body>
inline void parallel_for(int64_t n, int64_t grain, const Body& body) {
  if (n <= 0) return;
  if (n <= grain) {
    body(int64_t{0}, n);
    return;
  }
  run_in_parallel(n, std::max<int64_t>(grain, 1), &body, [](const void* erased, int64_t begin, int64_t end) {
    (*static_cast<const Body*>(erased))(begin, end);
  });
}

}  // namespace thalweg
