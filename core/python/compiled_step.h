// CompiledStep: a plan with the names, types and shapes of its feeds; Session.run calls it once per step.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "step_program.h"

namespace thalweg {

// The step program behind a CompiledStep of Python.
std::shared_ptr<const StepProgram> program_of(nanobind::handle compiled);

void bind_compiled_step(nanobind::module_& m);

}  // namespace thalweg
