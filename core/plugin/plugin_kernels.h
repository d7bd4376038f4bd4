// The host's functions for plug-ins: the other half of device_plugin.h.
#pragma once

#include <optional>

#include "error.h"
#include "plugin/plugin.h"

namespace thalweg {

const tw_host& host_interface();
// The error in a plug-in's report, if any.
std::optional<Error> error_of(const tw_error* error);

}  // namespace thalweg
