// BackgroundPace by the processor time of the thread.
#include "thread/background_pace.h"

#include <time.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace thalweg {
namespace {

// Shorter work is not worth a pause.
constexpr std::chrono::microseconds kWork(300);
constexpr int kPauses = 29;  // for each unit of work
// Others count as active for so long after a sign of them: a step may take a while.
constexpr std::chrono::milliseconds kSilence(100);

std::chrono::nanoseconds processor_time() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

BackgroundPace::BackgroundPace(std::function<bool()> is_active)
    : is_active_(std::move(is_active)), worked_(processor_time()) {}

void BackgroundPace::rest() {
  const std::chrono::nanoseconds work = processor_time() - worked_;
  if (work < kWork) return;
  const Clock::time_point now = Clock::now();
  if (is_active_()) active_until_ = now + kSilence;
  if (now < active_until_) {
    const std::chrono::nanoseconds pause = std::min<std::chrono::nanoseconds>(kPauses * work, left_);
    left_ -= pause;
    std::this_thread::sleep_for(pause);
  }
  worked_ = processor_time();
}

}  // namespace thalweg
