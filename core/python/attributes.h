// Attribute values of Python operations (graph/operation.py's canonical forms) to the core's.
#pragma once

#include <nanobind/nanobind.h>

#include "kernel/node_def.h"

namespace thalweg {

AttrValue attr_from_python(nanobind::handle value);
DType dtype_from_python(nanobind::handle value);

}  // namespace thalweg
