// CRC-32C with the processor's own instruction, eight bytes at a time.
#include "io/crc32c.h"

#include <cstring>

#ifdef __SSE4_2__
#include <nmmintrin.h>
#endif

namespace thalweg {
namespace {

#ifdef __SSE4_2__
uint32_t step8(uint32_t crc, uint8_t byte) { return _mm_crc32_u8(crc, byte); }
uint32_t step64(uint32_t crc, uint64_t word) { return static_cast<uint32_t>(_mm_crc32_u64(crc, word)); }
#else
uint32_t step8(uint32_t crc, uint8_t byte) {
  crc ^= byte;
  for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0x82f63b78u & (0u - (crc & 1u)));
  return crc;
}
uint32_t step64(uint32_t crc, uint64_t word) {
  for (int i = 0; i < 8; ++i) crc = step8(crc, static_cast<uint8_t>(word >> (8 * i)));
  return crc;
}
#endif

}  // namespace

uint32_t crc32c(const void* data, size_t size, uint32_t crc) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  crc = ~crc;
  for (; size >= 8; size -= 8, bytes += 8) {
    uint64_t word;
    std::memcpy(&word, bytes, 8);
    crc = step64(crc, word);
  }
  for (; size > 0; --size) crc = step8(crc, *bytes++);
  return ~crc;
}

}  // namespace thalweg
