// Reading while waiting.
#include "net/step_waiter.h"

#include <poll.h>

#include <algorithm>

#include "net/connection.h"
#include "net/spin.h"
#include "net/task.h"
#include "thread/run_soon.h"

namespace thalweg::net {

void StepPace::took(std::chrono::nanoseconds time) {
  // Half of the newest: a step that is long once in a while soon counts as short again.
  const int64_t before = nanoseconds_.load(std::memory_order_relaxed);
  nanoseconds_.store((before + std::min<int64_t>(time.count(), 8 * kShort)) / 2, std::memory_order_relaxed);
}

void StepWaiter::ended(StepResult result) {
  std::lock_guard lock(mutex_);
  result_ = std::move(result);
  has_ended_.store(true, std::memory_order_release);
  changed_.notify_all();
}

bool StepWaiter::sleep(std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, most, [&] { return result_.has_value(); });
}

void StepWaiter::read(Task& task, int64_t step, const std::vector<std::shared_ptr<Connection>>& connections) {
  if (!Spin::shared().begin_for_step()) return;
  std::vector<Connection*> claimed;
  std::vector<pollfd> waiting;
  for (const auto& each : connections) {
    if (!each->claim()) break;
    claimed.push_back(each.get());
    waiting.push_back({each->reading_fd(), POLLIN, 0});
  }
  const LongWorkScope long_work([&] {
    for (Connection* each : claimed) each->release();
  });
  // Steps and calls that begin after the claims find and end them.
  bool goes_on = claimed.size() == connections.size() && task.waits_for_one_step();
  Spin::Turn turn;
  while (goes_on && !has_ended_.load(std::memory_order_acquire)) {
    if (poll(waiting.data(), waiting.size(), 0) <= 0) {
      goes_on = turn.pause();
      continue;
    }
    for (size_t i = 0; i < waiting.size(); ++i)
      if (waiting[i].revents != 0) goes_on &= claimed[i]->read_claimed(step);
    turn.progress();
  }
  for (Connection* each : claimed) each->release();
  Spin::shared().end();
}

}  // namespace thalweg::net
