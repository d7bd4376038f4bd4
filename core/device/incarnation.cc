// The incarnations of this process's devices.
#include "device/incarnation.h"

#include <unistd.h>

#include <map>
#include <mutex>
#include <utility>

#include "random/entropy.h"

namespace thalweg {

uint64_t device_incarnation(const std::string& device) {
  static std::mutex mutex;
  // By process, too: the child of a fork is another process.
  static auto& known = *new std::map<std::pair<pid_t, std::string>, uint64_t>();
  std::lock_guard lock(mutex);
  uint64_t& incarnation = known[{getpid(), device}];
  while (incarnation == 0) incarnation = entropy64();
  return incarnation;
}

}  // namespace thalweg
