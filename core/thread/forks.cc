// The handlers of forks.
#include "thread/forks.h"

#include <pthread.h>

#include <mutex>
#include <utility>

#include "error.h"

namespace thalweg {
namespace {

// All sessions' counts. The thread that forks holds the lock meanwhile, so that the child finds the list whole.
std::mutex all_mutex;
Forks::Steps* all_steps = nullptr;

}  // namespace

std::atomic<bool> Forks::broken_{false};
const bool Forks::watching_ = [] {
  pthread_atfork([] { all_mutex.lock(); }, [] { all_mutex.unlock(); }, &Forks::judge);
  return true;
}();

Forks::Steps::Steps() {
  std::lock_guard lock(all_mutex);
  after_ = all_steps;
  if (after_ != nullptr) after_->before_ = this;
  all_steps = this;
}

Forks::Steps::~Steps() {
  std::lock_guard lock(all_mutex);
  (before_ != nullptr ? before_->after_ : all_steps) = after_;
  if (after_ != nullptr) after_->before_ = before_;
}

void Forks::judge() {
  for (Steps* steps = all_steps; steps != nullptr; steps = steps->after_)
    if (std::exchange(steps->running_, 0) > 0) broken_.store(true);
  all_mutex.unlock();
}

void Forks::in_child(void (*reset)()) { pthread_atfork(nullptr, nullptr, reset); }

void Forks::refuse() {
  fail(
      Code::failed_precondition,
      "this process was forked while its parent was running a step: it cannot run steps, because it lacks the threads "
      "that hold the parent's locks. Fork before the first step or between steps, or start processes that do not share "
      "the parent's memory: multiprocessing.set_start_method('spawn') or 'forkserver'");
}

}  // namespace thalweg
