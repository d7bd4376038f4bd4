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
std::atomic<uint64_t> Gil::asked_{0};
std::atomic<uint64_t> Gil::answered_{0};
constinit thread_local bool Gil::inside_ = false;

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
  // A thread that has been given the lock counts among the holders before it counts as answered: read in this order.
  const auto others = [own] {
    const uint64_t answered = answered_.load();
    return asked_.load() != answered || holders_.load() > own;
  };
  while (others() && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  PyEval_RestoreThread(thread);
}

}  // namespace thalweg
