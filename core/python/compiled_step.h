// CompiledStep: a plan with the names, types and shapes of its feeds: what Session.run calls once per step.
#pragma once

#include <nanobind/nanobind.h>

namespace thalweg {

void bind_compiled_step(nanobind::module_& m);

}  // namespace thalweg
