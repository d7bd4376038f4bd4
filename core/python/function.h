// The binding of functions and of what a session does with them.
#pragma once

#include <nanobind/nanobind.h>

#include "session.h"

namespace thalweg {

void bind_function(nanobind::module_& m, nanobind::class_<Session>& session);

}  // namespace thalweg
