// Collectives::Pending: a call of a collective operation, until it has ended. For the files of Collectives only.
#pragma once

#include <atomic>

#include "net/collectives.h"

namespace thalweg::net {

struct Collectives::Pending {
  CollectiveCall call;
  CollectiveDone done;
  std::atomic<bool> is_ended{false};
  // Set when the run begins; guarded by the lock of Collectives.
  uint64_t generation = 0;
  std::weak_ptr<CollectiveRun> run;

  void finish(std::optional<Error> error, Tensor value) {
    if (is_ended.exchange(true)) return;
    CollectiveDone tell = std::move(done);
    tell(std::move(error), std::move(value));
  }
};

}  // namespace thalweg::net
