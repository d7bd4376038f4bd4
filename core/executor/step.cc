// The numbers of steps.
#include "executor/step.h"

#include <pthread.h>

#include "random/entropy.h"

namespace thalweg {
namespace {

// Positive, and so far from the greatest number that counting never reaches it.
int64_t random_start() { return static_cast<int64_t>(entropy64() >> 2) + 1; }

}  // namespace

thread_local const StreamScope* StreamScope::innermost_ = nullptr;

const std::shared_ptr<RandomStreams>& Step::random_streams() const {
  const StreamScope* scope = StreamScope::innermost_;
  while (scope != nullptr && scope->step_ != this) scope = scope->outer_;
  return scope != nullptr ? scope->streams_ : random_streams_;
}

int64_t Step::new_id() {
  struct Numbers {
    Numbers() {
      // A child process must not count on with its parent's numbers.
      pthread_atfork(nullptr, nullptr, [] { numbers().next.store(random_start()); });
    }
    static Numbers& numbers() {
      static Numbers one;
      return one;
    }
    std::atomic<int64_t> next{random_start()};
  };
  return Numbers::numbers().next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace thalweg
