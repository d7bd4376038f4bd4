// The hook around waits.
#include "thread/blocking.h"

#include <atomic>

namespace thalweg {
namespace {

std::atomic<BlockingHook> installed{nullptr};

}  // namespace

void set_blocking_hook(BlockingHook hook) { installed.store(hook); }

void blocking(const std::function<void()>& wait) {
  if (BlockingHook hook = installed.load())
    hook(wait);
  else
    wait();
}

}  // namespace thalweg
