// CRC-32C (Castagnoli), the checksum of TFRecord files, event files and checkpoints, and its masked form.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thalweg {

// The checksum of `data` following bytes whose checksum is `crc` (0: none).
uint32_t crc32c(const void* data, size_t size, uint32_t crc = 0);
// The checksum of two pieces put together, from their checksums and the length of the second.
uint32_t combine_crc32c(uint32_t first, uint32_t second, uint64_t second_size);

// Stored checksums are masked: the checksum of bytes that contain their own checksum would be a poor one.
inline uint32_t mask_crc(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }
inline uint32_t unmask_crc(uint32_t masked) {
  uint32_t rotated = masked - 0xa282ead8u;
  return (rotated >> 17) | (rotated << 15);
}

}  // namespace thalweg
