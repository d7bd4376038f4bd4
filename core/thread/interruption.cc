// The calling thread's interruption.
#include "thread/interruption.h"

namespace thalweg {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(10);
constinit thread_local Interruption* active = nullptr;

}  // namespace

Interruption::Interruption() : outer_(active), next_(std::chrono::steady_clock::now() + kInterval) { active = this; }
Interruption::~Interruption() { active = outer_; }

Interruption* Interruption::current() { return active; }

bool Interruption::is_due() {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return false;
  next_ = now + kInterval;
  return ended();
}

}  // namespace thalweg
