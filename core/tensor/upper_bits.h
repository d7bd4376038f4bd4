// The white paper's lossy compression (section 5.5): of each float32 the upper 16 bits travel, and zeros take the place
// of the others.
#pragma once

#include <cstdint>

namespace thalweg {

// A NaN stays one though its upper bits may look like an infinity.
inline uint16_t upper_bits(uint32_t value) {
  const bool nan = (value & 0x7fffffffu) > 0x7f800000u;
  return static_cast<uint16_t>(value >> 16 | (nan ? 0x40u : 0u));
}

// The value at the receiver.
inline uint32_t from_upper_bits(uint16_t bits) { return uint32_t{bits} << 16; }

}  // namespace thalweg
