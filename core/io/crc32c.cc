// CRC-32C with the processor's instruction: three streams at a time, because each instruction waits for the one before.
#include "io/crc32c.h"

#include <array>
#include <cstring>

#ifdef __SSE4_2__
#include <nmmintrin.h>
#endif

namespace thalweg {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78u;  // Bits reversed.

// A linear map on checksums, as the images of the 32 bits.
using Matrix = std::array<uint32_t, 32>;

uint32_t times(const Matrix& m, uint32_t vector) {
  uint32_t sum = 0;
  for (int i = 0; vector != 0; ++i, vector >>= 1) sum ^= (vector & 1) != 0 ? m[i] : 0;
  return sum;
}

Matrix squared(const Matrix& m) {
  Matrix out;
  for (int i = 0; i < 32; ++i) out[i] = times(m, m[i]);
  return out;
}

// The linear maps of 2^k zero bytes on a checksum, for all k.
const std::array<Matrix, 64>& powers() {
  static const std::array<Matrix, 64> table = [] {
    Matrix bit;
    bit[0] = kPolynomial;
    for (int i = 1; i < 32; ++i) bit[i] = 1u << (i - 1);
    std::array<Matrix, 64> out;
    out[0] = squared(squared(squared(bit)));
    for (int k = 1; k < 64; ++k) out[k] = squared(out[k - 1]);
    return out;
  }();
  return table;
}

uint32_t append_zeros(uint32_t crc, uint64_t count) {
  for (int k = 0; count != 0; ++k, count >>= 1) {
    if ((count & 1) != 0) crc = times(powers()[k], crc);
  }
  return crc;
}

#ifdef __SSE4_2__
// Bytes of each of the three streams between two joins: of long data, and of records of a few kilobytes.
constexpr size_t kStream = 4096, kShortStream = 256;

// The map of `count` zero bytes, by the four bytes of the checksum.
struct StreamShift {
  uint32_t table[4][256];
  explicit StreamShift(size_t count) {
    for (int byte = 0; byte < 4; ++byte) {
      for (uint32_t v = 0; v < 256; ++v) table[byte][v] = append_zeros(v << (8 * byte), count);
    }
  }
  uint32_t operator()(uint32_t crc) const {
    return table[0][crc & 0xff] ^ table[1][(crc >> 8) & 0xff] ^ table[2][(crc >> 16) & 0xff] ^ table[3][crc >> 24];
  }
};

uint64_t load(const unsigned char* at) {
  uint64_t word;
  std::memcpy(&word, at, 8);
  return word;
}

template <size_t stream>
uint32_t extend_by_streams(uint32_t crc, const unsigned char*& at, size_t& size) {
  static const StreamShift shift(stream);
  while (size >= 3 * stream) {
    uint64_t a = crc, b = 0, c = 0;
    for (size_t i = 0; i < stream; i += 8) {
      a = _mm_crc32_u64(a, load(at + i));
      b = _mm_crc32_u64(b, load(at + stream + i));
      c = _mm_crc32_u64(c, load(at + 2 * stream + i));
    }
    crc = shift(shift(static_cast<uint32_t>(a)) ^ static_cast<uint32_t>(b)) ^ static_cast<uint32_t>(c);
    at += 3 * stream;
    size -= 3 * stream;
  }
  return crc;
}

uint32_t raw_extend(uint32_t crc, const unsigned char* at, size_t size) {
  if (size >= 3 * kStream) crc = extend_by_streams<kStream>(crc, at, size);
  if (size >= 3 * kShortStream) crc = extend_by_streams<kShortStream>(crc, at, size);
  uint64_t wide = crc;
  for (; size >= 8; at += 8, size -= 8) wide = _mm_crc32_u64(wide, load(at));
  crc = static_cast<uint32_t>(wide);
  for (; size > 0; ++at, --size) crc = _mm_crc32_u8(crc, *at);
  return crc;
}
#else
uint32_t raw_extend(uint32_t crc, const unsigned char* at, size_t size) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> out;
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1) != 0 ? kPolynomial : 0);
      out[i] = c;
    }
    return out;
  }();
  for (; size > 0; ++at, --size) crc = table[(crc ^ *at) & 0xff] ^ (crc >> 8);
  return crc;
}
#endif

}  // namespace

uint32_t crc32c(const void* data, size_t size, uint32_t crc) {
  return ~raw_extend(~crc, static_cast<const unsigned char*>(data), size);
}

uint32_t combine_crc32c(uint32_t first, uint32_t second, uint64_t second_size) {
  return append_zeros(first, second_size) ^ second;
}

}  // namespace thalweg
