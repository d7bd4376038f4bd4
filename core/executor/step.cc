// The numbers of steps.
#include "executor/step.h"

#include <pthread.h>

#include "random/entropy.h"

namespace thalweg {
namespace {

// Positive, and so far from the greatest number that counting never reaches it.
int64_t random_start() { return static_cast<int64_t>(entropy64() >> 2) + 1; }

}  // namespace

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
