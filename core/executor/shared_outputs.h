// Nodes whose outputs other tasks of the host read: their kernels allocate in shared memory (memory/shared_arena.h), so
// that the outputs are lent without a copy. Kernels are slower there, since shared memory seldom has huge pages: no
// other node uses it.
#pragma once

#include <memory>
#include <vector>

#include "executor/plan.h"

namespace thalweg {

// Which nodes make such outputs: those before a collective op, and, on a device of a task, those before a Send to
// another task and those that make the value of a variable, which any step may send.
std::vector<bool> lent_outputs(const std::vector<NodeSpec>& specs, const Device& device);

// The kernel, with its outputs in shared memory. Not for asynchronous kernels.
std::shared_ptr<Kernel> with_shared_outputs(std::shared_ptr<Kernel> kernel);

}  // namespace thalweg
