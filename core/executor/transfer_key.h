// The rendezvous key of a Send or Recv node, from its attributes.
//
// `send_device_incarnation` 0 stands for the incarnation that the sending device has in this process: steps of one
// process are planned without it.
#pragma once

#include <string>
#include <vector>

#include "device/incarnation.h"
#include "executor/rendezvous_key.h"
#include "kernel/node_def.h"

namespace thalweg {

inline RendezvousKey transfer_key(const NodeDef& def, const std::string& tensor_name) {
  const auto source = def.attr<std::string>("send_device", "");
  auto incarnation = static_cast<uint64_t>(def.attr<int64_t>("send_device_incarnation", 0));
  if (incarnation == 0 && !source.empty()) incarnation = device_incarnation(source);
  return RendezvousKey(source, incarnation, def.attr<std::string>("recv_device", ""), tensor_name);
}

inline RendezvousKey transfer_key(const NodeDef& def) {
  return transfer_key(def, def.attr<std::string>("tensor_name"));
}

// The keys of a node that sends or receives; none for others.
inline std::vector<RendezvousKey> transfer_keys(const NodeDef& def) {
  std::vector<RendezvousKey> keys;
  if (def.op == "_Send" || def.op == "_Recv") keys.push_back(transfer_key(def));
  if (def.op == "_SendAll")
    for (const auto& name : def.attr<std::vector<std::string>>("tensor_names")) keys.push_back(transfer_key(def, name));
  return keys;
}

}  // namespace thalweg
