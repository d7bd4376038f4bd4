// Device: where kernels run: a full name, a type that selects kernels, and the resources that live there.
#pragma once

#include <memory>
#include <string>

#include "resource/manager.h"

namespace thalweg {

struct Device {
  std::string name;  // "/job:localhost/replica:0/task:0/device:CPU:0"
  std::string type;  // "CPU"
  ResourceManager resources;
};

}  // namespace thalweg
