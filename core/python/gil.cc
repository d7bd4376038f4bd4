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
std::atomic<int> Gil::threads_{0};
thread_local bool Gil::inside_ = false;

bool Gil::is_ender() { return ender.load() == std::this_thread::get_id(); }

void Gil::rest() {
  if (inside_) leave();
  while (true) pause();
}

void Gil::end_threads() {
  ender.store(std::this_thread::get_id());
  ending_.store(true);
  // A Python function that a kernel runs may take long; the end of a program does not wait for it for ever.
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  const int own = inside_ ? 1 : 0;
  PyThreadState* thread = PyEval_SaveThread();
  while (threads_.load() > own && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  PyEval_RestoreThread(thread);
}

}  // namespace thalweg
