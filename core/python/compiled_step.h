// CompiledStep: a plan with the names, types and shapes of its feeds; Session.run calls it once per step.
#pragma once

#include <nanobind/nanobind.h>

namespace thalweg {

void bind_compiled_step(nanobind::module_& m);

}  // namespace thalweg
