// BackgroundPace: pauses while others are active, and none while they are not.
#include "thread/background_pace.h"

#include <time.h>

#include "check.h"

namespace {

using namespace thalweg;

double seconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Works for 20 ms of processor time, and returns how many times as long the clock went on during the rests.
double rested(BackgroundPace& pace) {
  const double begin = seconds(CLOCK_THREAD_CPUTIME_ID);
  double rests = 0;
  while (seconds(CLOCK_THREAD_CPUTIME_ID) < begin + 0.02) {
    const double before = seconds(CLOCK_MONOTONIC);
    pace.rest();
    rests += seconds(CLOCK_MONOTONIC) - before;
  }
  return rests / 0.02;
}

TEST(work_beside_others_rests_most_of_the_time) {
  BackgroundPace pace([] { return true; });
  CHECK(rested(pace) > 12);
}

TEST(work_that_others_wait_for_does_not_rest) {
  int asked = 0;
  BackgroundPace pace([&] {
    ++asked;
    return false;
  });
  // On a busy machine the thread may lose its core now and then.
  CHECK(rested(pace) < 3);
  CHECK(asked > 10);
}

TEST(pauses_go_on_for_a_while_after_the_last_sign_of_others) {
  int asked = 0;
  BackgroundPace pace([&] { return ++asked <= 3; });
  CHECK(rested(pace) > 3);
}

}  // namespace
