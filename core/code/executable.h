// Executable: memory that holds machine code, never writable and executable at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace thalweg::code {

class Executable {
 public:
  // Null where the system allows no new code.
  static std::unique_ptr<Executable> make(std::span<const uint8_t> bytes);
  ~Executable();
  Executable(const Executable&) = delete;

  const void* start() const { return memory_; }

 private:
  Executable(void* memory, size_t bytes) : memory_(memory), bytes_(bytes) {}
  void* memory_;
  size_t bytes_;
};

}  // namespace thalweg::code
