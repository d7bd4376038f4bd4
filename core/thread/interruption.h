// Interruption: lets the long parallel loops of a kernel end early when its step has ended.
//
// While one is in scope, the loops that its thread begins look at it between their pieces, now and then by the clock;
// once `ended` says so they leave out what is left, and throw CancelledError, or what `ended` has thrown. So only
// kernels that write nothing but their own outputs may have one: never an update of a variable. It costs an allocation
// of pieces that are smaller than usual; have one where a loop may take seconds.
#pragma once

#include <chrono>

namespace thalweg {

class Interruption {
 public:
  virtual ~Interruption();
  Interruption(const Interruption&) = delete;
  // That of the calling thread, or null.
  static Interruption* current();
  // For the thread that has it: whether to stop, asked at most every few milliseconds.
  bool is_due();

 protected:
  Interruption();
  virtual bool ended() = 0;

 private:
  Interruption* const outer_;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace thalweg
