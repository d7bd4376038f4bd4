// The handlers of forks.
#include "thread/forks.h"

#include <pthread.h>

#include "error.h"

namespace thalweg {

std::atomic<int> Forks::running_{0};
std::atomic<bool> Forks::broken_{false};
const bool Forks::watching_ = [] {
  in_child(&Forks::judge);
  return true;
}();

void Forks::judge() {
  if (running_.exchange(0) > 0) broken_.store(true);
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
