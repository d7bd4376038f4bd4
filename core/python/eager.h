// Immediate execution for Python: eager tensors and the calls of single ops.
#pragma once

#include <nanobind/nanobind.h>

namespace thalweg {

void bind_eager(nanobind::module_& m);

}  // namespace thalweg
