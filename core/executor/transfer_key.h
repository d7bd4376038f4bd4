// The rendezvous key of a Send or Recv node, from its attributes.
#pragma once

#include <string>

#include "executor/rendezvous_key.h"
#include "kernel/node_def.h"

namespace thalweg {

inline RendezvousKey transfer_key(const NodeDef& def) {
  return RendezvousKey(def.attr<std::string>("send_device", ""),
                       static_cast<uint64_t>(def.attr<int64_t>("send_device_incarnation", 0)),
                       def.attr<std::string>("recv_device", ""), def.attr<std::string>("tensor_name"));
}

}  // namespace thalweg
