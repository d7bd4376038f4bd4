// Element types of memory that lanes have not: small integers, bool, float16 and bfloat16.
//
// They are widened to lanes of 32 bits (bool also of 64) where a stream is read, and narrowed where one is written. A
// recording says so by a conversion whose immediate is `from_memory(type)`: its operand is then a parameter. float16
// values are floats in registers; `kToHalf` as the immediate rounds a float to one that float16 has.
#pragma once

#include "code/recording.h"

namespace thalweg::code {

enum class Memory : uint8_t { lane, boolean, uint8, int8, uint16, int16, float16, bfloat16 };

constexpr int64_t kToHalf = 15, kFirstMemory = 16;
constexpr int64_t from_memory(Memory type) { return kFirstMemory + static_cast<int64_t>(type); }

// Bytes of an element, as a power of two.
constexpr int log_size(Memory type, bool wide) {
  switch (type) {
    case Memory::lane:
      return wide ? 3 : 2;
    case Memory::boolean:
    case Memory::uint8:
    case Memory::int8:
      return 0;
    default:
      return 1;
  }
}

}  // namespace thalweg::code
