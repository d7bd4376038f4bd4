// entropy64: 64 random bits from the operating system, for numbers that no other process may have.
#pragma once

#include <sys/random.h>

#include <cerrno>
#include <cstdint>

#include "error.h"

namespace thalweg {

inline uint64_t entropy64() {
  uint64_t bits = 0;
  // So few bytes come whole or not at all; a signal may interrupt the call only while the system starts.
  while (getrandom(&bits, sizeof(bits), 0) != static_cast<ssize_t>(sizeof(bits)))
    if (errno != EINTR) fail(Code::internal, "the operating system gives no random numbers (getrandom)");
  return bits;
}

}  // namespace thalweg
