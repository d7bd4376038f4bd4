// Letting threads rest when the interpreter ends.
#include "python/gil.h"

#include <unistd.h>

#include <chrono>
#include <thread>

namespace thalweg {
namespace {

std::atomic<std::thread::id> ender{};

}  // namespace

std::atomic<bool> Gil::ending_{false};
std::atomic<int> Gil::inside_{0};

void Gil::entering() {
  // Counts itself, then reads the flag; `end_threads` sets the flag, then reads the count: so one of them sees the
  // other.
  inside_.fetch_add(1);
  if (!ending_.load() || ender.load() == std::this_thread::get_id()) return;
  inside_.fetch_sub(1);
  while (true) pause();
}

void Gil::end_threads() {
  ender.store(std::this_thread::get_id());
  ending_.store(true);
  // A Python function that a kernel runs may take long; the end of a program does not wait for it for ever.
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  PyThreadState* thread = PyEval_SaveThread();
  while (inside_.load() > 0 && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  PyEval_RestoreThread(thread);
}

}  // namespace thalweg
