// LongStep: a step that Python waits for, watched once it takes long: which steps are under way, and since when.
//
// A step that ends before its waiting thread first looks for signals costs nothing here. From then on it is listed, for
// `long_steps`; and if it takes longer than the time given with `set_long_step_hook`, the hook is called once, with the
// lock of Python, on the thread that waits for the step.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <memory>

#include "step_program.h"

namespace thalweg {

class LongStep {
 public:
  // The program must live longer.
  explicit LongStep(const std::shared_ptr<const StepProgram>& program) : program_(program) {}
  ~LongStep();
  LongStep(const LongStep&) = delete;
  // What the waiting thread calls now and then: handles signals, too. Throws if a signal's handler raises.
  void poll();

 private:
  friend nanobind::list long_steps();
  using Clock = std::chrono::steady_clock;
  const std::shared_ptr<const StepProgram>& program_;
  Clock::time_point began_{};  // of the first look
  bool listed_ = false, told_ = false;
  unsigned long thread_ = 0;  // as threading.get_ident has it
};

// The steps that are under way and take long: (seconds, thread, nodes as in CompiledStep.nodes).
nanobind::list long_steps();
void bind_long_steps(nanobind::module_& m);

}  // namespace thalweg
