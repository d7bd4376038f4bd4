// Memory for machine code.
#include "code/executable.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace thalweg::code {

std::unique_ptr<Executable> Executable::make(std::span<const uint8_t> bytes) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t size = (bytes.size() + page - 1) / page * page;
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  std::unique_ptr<Executable> made(new Executable(memory, size));
  std::memcpy(memory, bytes.data(), bytes.size());
  if (mprotect(memory, size, PROT_READ | PROT_EXEC) != 0) return nullptr;
  return made;
}

Executable::~Executable() { munmap(memory_, bytes_); }

}  // namespace thalweg::code
