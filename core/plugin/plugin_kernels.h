// What the host offers to plug-ins: the other half of device_plugin.h.
#pragma once

#include <optional>

#include "error.h"
#include "plugin/plugin.h"

namespace thalweg {

const tw_host& host_interface();
// What a plug-in reports, if it is an error.
std::optional<Error> error_of(const tw_error* error);

}  // namespace thalweg
