// The Python call stack: where in the user's program an operation is created.
#pragma once

#include <nanobind/nanobind.h>

namespace thalweg {

void bind_call_stack(nanobind::module_& m);

}  // namespace thalweg
