// The checksums of compressed streams: CRC-32 (gzip) and Adler-32 (zlib), computed piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thalweg {

uint32_t crc32(const void* data, size_t size, uint32_t crc = 0);
uint32_t adler32(const void* data, size_t size, uint32_t adler = 1);

}  // namespace thalweg
