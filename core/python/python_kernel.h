// Kernels written in Python: the executor calls them under the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "error.h"

namespace thalweg {

// `function(inputs: list[ndarray], attrs: dict) -> ndarray or sequence of them`, for every element type. One that looks
// at its step may call `step_has_ended`.
void register_python_kernel(const std::string& op, nanobind::callable function, bool looks_at_step);
// For a kernel that looks at its step, on the thread that it was called on: whether to stop. With the GIL.
bool step_has_ended();
// Whether an op has a kernel that is written in Python.
bool is_python_op(const std::string& op);

// The Error equivalent of a Python exception: Thalweg's own classes keep their code. Clears nothing.
Error error_from_python(nanobind::python_error& exception);

}  // namespace thalweg
