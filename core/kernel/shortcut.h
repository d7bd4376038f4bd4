// Shortcuts: native code that a kernel written in Python tries first, without the GIL.
//
// A shortcut returns false, having set no output, for inputs that it does not handle; then the Python kernel runs. It
// may throw like any kernel. Registration happens before main.
#pragma once

#include <functional>
#include <string>

#include "kernel/kernel.h"

namespace thalweg {

using Shortcut = std::function<bool(Context&)>;

// Returns 0, for use with REGISTER.
int add_shortcut(const std::string& op, Shortcut (*make)(const Construction&));
// The shortcut for a node; empty if its op has none.
Shortcut make_shortcut(const Construction& c);

}  // namespace thalweg
