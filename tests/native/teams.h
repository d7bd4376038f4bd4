// For native tests of teams: every step gets one, and kernels that need two threads.
#pragma once

#include <chrono>

#include "graphs.h"

namespace native_tests {

// Gives every step a team for as long as it lives.
struct Forced {
  Forced() { Pace::force(true); }
  ~Forced() { Pace::force(false); }
};

// Two kernels that return only when both run at the same time.
struct Meeting {
  std::atomic<int> here{0};
  std::function<void(Context&)> kernel() {
    return [this](Context& ctx) {
      ++here;
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (here.load() % 2 != 0 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
      if (here.load() % 2 != 0) fail(Code::deadline_exceeded, "nobody came");
      ctx.set_output(0, number(1));
    };
  }
};

}  // namespace native_tests
