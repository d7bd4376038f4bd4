// CRC-32C (Castagnoli), as TensorFlow's checkpoints and records use it: fast enough to hide behind a memory copy.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thalweg::crc32c {

// The checksum of the bytes behind `crc` followed by these.
uint32_t extend(uint32_t crc, const void* data, size_t size);
inline uint32_t value(const void* data, size_t size) { return extend(0, data, size); }
// The checksum of two pieces put together, from theirs and the length of the second.
uint32_t combine(uint32_t first, uint32_t second, uint64_t second_size);

// Checksums are stored masked: the checksum of data that contains checksums would be weak.
inline uint32_t mask(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }
inline uint32_t unmask(uint32_t masked) {
  uint32_t rotated = masked - 0xa282ead8u;
  return (rotated >> 17) | (rotated << 15);
}

}  // namespace thalweg::crc32c
