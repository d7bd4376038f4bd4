// Bindings of the collectives of a task.
#pragma once

#include <nanobind/nanobind.h>

namespace thalweg {

void bind_collectives(nanobind::module_& m);

}  // namespace thalweg
