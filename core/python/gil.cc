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
std::atomic<int> Gil::holders_{0};
std::atomic<int> Gil::asking_{0};
thread_local bool Gil::inside_ = false;

bool Gil::is_ender() { return ender.load() == std::this_thread::get_id(); }

void Gil::rest() {
  while (true) pause();
}

void Gil::end_threads() {
  ender.store(std::this_thread::get_id());
  ending_.store(true);
  // A Python function that a kernel runs may take long; the end of a program does not wait for it for ever.
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  const int own = inside_ ? 1 : 0;
  PyThreadState* thread = PyEval_SaveThread();
  // A thread that has been given the lock counts among the holders before it asks no longer: read in this order.
  const auto others = [own] { return asking_.load() != 0 || holders_.load() > own; };
  while (others() && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  PyEval_RestoreThread(thread);
}

}  // namespace thalweg
