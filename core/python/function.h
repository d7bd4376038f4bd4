// The binding of functions, and of a session's operations on them.
#pragma once

#include <nanobind/nanobind.h>

#include "session.h"

namespace thalweg {

void bind_function(nanobind::module_& m, nanobind::class_<Session>& session);

}  // namespace thalweg
