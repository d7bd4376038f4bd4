// Devices from Python: accounts and limits, plug-ins, the shapes that the null device asks for.
#pragma once

#include <nanobind/nanobind.h>

#include "session.h"

namespace thalweg {

// The devices of a server, which all its sessions share.
struct ServerDevices {
  Session::Devices devices;
};

void bind_devices(nanobind::module_& m, nanobind::class_<Session>& session);

}  // namespace thalweg
