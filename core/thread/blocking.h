// blocking: waits for work of other threads from a thread that may hold a lock which they need.
//
// The core knows nothing of Python, but its objects are destroyed by Python threads, which hold the GIL; work that they
// wait for may need it. The module installs a hook that releases the GIL around the wait.
#pragma once

#include <functional>

namespace thalweg {

using BlockingHook = void (*)(const std::function<void()>& wait);
void set_blocking_hook(BlockingHook hook);
void blocking(const std::function<void()>& wait);

}  // namespace thalweg
