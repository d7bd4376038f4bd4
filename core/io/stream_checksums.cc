// CRC-32 by tables, eight bytes at a time, and Adler-32 in loops that vectorize.
#include "io/stream_checksums.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace thalweg {
namespace {

using Tables = std::array<std::array<uint32_t, 256>, 8>;

// Entry [k][b]: the effect of byte b on the checksum when k more bytes follow it.
constexpr Tables crc_tables() {
  Tables out{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1) != 0 ? 0xedb88320u : 0);
    out[0][i] = c;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (uint32_t i = 0; i < 256; ++i) out[k][i] = (out[k - 1][i] >> 8) ^ out[0][out[k - 1][i] & 0xff];
  }
  return out;
}

constexpr Tables kTables = crc_tables();

}  // namespace

uint32_t crc32(const void* data, size_t size, uint32_t crc) {
  const auto* at = static_cast<const unsigned char*>(data);
  crc = ~crc;
  for (; size >= 8; at += 8, size -= 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    word ^= crc;
    crc = 0;
    for (int k = 0; k < 8; ++k) crc ^= kTables[7 - k][(word >> (8 * k)) & 0xff];
  }
  for (; size > 0; ++at, --size) crc = (crc >> 8) ^ kTables[0][(crc ^ *at) & 0xff];
  return ~crc;
}

uint32_t adler32(const void* data, size_t size, uint32_t adler) {
  constexpr uint32_t kBase = 65521;
  constexpr size_t kRow = 32;
  constexpr size_t kRows = 128;  // Few enough that the sums stay below 2^32.
  const auto* at = static_cast<const unsigned char*>(data);
  uint32_t a = adler & 0xffff, b = adler >> 16;
  while (size >= kRow) {
    size_t rows = std::min(size / kRow, kRows);
    // b gains the sum a after each byte: kRow times the a before a row, and each of its bytes as often as bytes follow.
    uint32_t starts = 0, weighted = 0;
    for (size_t r = 0; r < rows; ++r, at += kRow) {
      starts += a;
      for (size_t i = 0; i < kRow; ++i) {
        a += at[i];
        weighted += at[i] * static_cast<uint32_t>(kRow - i);
      }
    }
    b = static_cast<uint32_t>((b + static_cast<uint64_t>(starts) * kRow + weighted) % kBase);
    a %= kBase;
    size -= rows * kRow;
  }
  for (; size > 0; ++at, --size) {
    a += *at;
    b += a;
  }
  return (b % kBase) << 16 | (a % kBase);
}

}  // namespace thalweg
