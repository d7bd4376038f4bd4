// device_incarnation: a random number for each device of this process, which tells it from a device of the same name in
// another process, or in the process that replaces this one after a crash.
//
// A transfer names the incarnation of its source (executor/rendezvous_key.h), and a part of a step that was planned for
// another incarnation is refused: a task that restarts after a crash has lost its state.
#pragma once

#include <cstdint>
#include <string>

namespace thalweg {

// Never 0; the same number for the same name while the process lives. Thread-safe.
uint64_t device_incarnation(const std::string& device);

}  // namespace thalweg
