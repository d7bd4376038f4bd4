// The name that a Send and its Recv agree on: who sends what to whom.
#pragma once

#include <string>

#include "kernel/node_def.h"

namespace thalweg {

inline std::string transfer_name(const NodeDef& def) {
  return cat(def.attr<std::string>("send_device", ""), ";", def.attr<int64_t>("send_device_incarnation", 0), ";",
             def.attr<std::string>("recv_device", ""), ";", def.attr<std::string>("tensor_name"));
}

}  // namespace thalweg
