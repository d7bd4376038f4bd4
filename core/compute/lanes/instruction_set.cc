// Asking for the instruction set, once.
#include "compute/lanes/instruction_set.h"

#include <atomic>
#include <mutex>
#include <utility>

namespace thalweg {
namespace {

std::mutex probe_mutex;
std::function<std::string()> isa_probe;

}  // namespace

void set_isa_probe(std::function<std::string()> probe) {
  std::lock_guard lock(probe_mutex);
  isa_probe = std::move(probe);
}

const std::string& usable_instruction_set() {
  static std::atomic<const std::string*> known{nullptr};
  if (const std::string* isa = known.load(std::memory_order_acquire)) return *isa;
  std::function<std::string()> probe;
  {
    std::lock_guard lock(probe_mutex);
    probe = isa_probe;
  }
  // This core is compiled for AVX2, which is therefore safe without a probe.
  std::string isa = probe ? probe() : "AVX2";
  static std::once_flag once;
  std::call_once(once, [&] { known.store(new std::string(std::move(isa)), std::memory_order_release); });
  return *known.load(std::memory_order_acquire);
}

}  // namespace thalweg
