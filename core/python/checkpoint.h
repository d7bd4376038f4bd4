// Binds the reader of checkpoints.
#pragma once

#include <nanobind/nanobind.h>

namespace thalweg {

void bind_checkpoint(nanobind::module_& m);

}  // namespace thalweg
