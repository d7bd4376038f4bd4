// The network for Python: tasks, connections, and steps over several tasks.
#pragma once

#include <nanobind/nanobind.h>

namespace thalweg {

void bind_network(nanobind::module_& m);

}  // namespace thalweg
