// Plugin: a shared library that brings a type of device (thalweg/device_plugin.h). Loaded once, never unloaded.
#pragma once

#include <string>

#include "thalweg/device_plugin.h"

namespace thalweg {

struct Plugin {
  std::string path;
  const tw_device_plugin* table;
  std::string type;
};

// Loads a plug-in, once for each path; throws Error if the library is no plug-in, or does not fit the interface.
const Plugin& load_plugin(const std::string& path);
// The plug-in that has a type of device, or null.
const Plugin* plugin_of(const std::string& device_type);

}  // namespace thalweg
