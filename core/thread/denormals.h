// Denormals: whether this thread's arithmetic on float and double treats numbers below the smallest normal one as 0.
//
// Kernels do, as TensorFlow's do: weights that decay towards 0 would otherwise become a hundred times slower to compute
// with. Python code does not, on whichever thread it runs: it belongs to the user. Threads that a kernel starts (those
// of OpenMP) inherit the mode of their creator. 16-bit types keep their denormals.
#pragma once

#include <immintrin.h>

namespace thalweg {

// Flushes denormals, or keeps them, until the end of the scope; then the mode is what it was before. Writing the mode
// takes as long as ten additions: a scope inside of one of the same kind only reads it.
template <bool flush>
class DenormalScope {
 public:
  DenormalScope() {
    const unsigned now = _mm_getcsr();
    before_ = now & kBits;
    if (before_ != kWanted) _mm_setcsr((now & ~kBits) | kWanted);
  }
  ~DenormalScope() {
    if (before_ != kWanted) _mm_setcsr((_mm_getcsr() & ~kBits) | before_);
  }
  DenormalScope(const DenormalScope&) = delete;

 private:
  // Results, and operands. The other bits stay: the flags of floating point exceptions are among them.
  static constexpr unsigned kBits = 0x8040;
  static constexpr unsigned kWanted = flush ? kBits : 0;
  unsigned before_;
};

using FlushDenormals = DenormalScope<true>;
using KeepDenormals = DenormalScope<false>;

}  // namespace thalweg
