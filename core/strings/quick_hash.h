// quick_hash: a fast hash for tables in memory. Its values mean nothing outside of the process; core/strings/hash.h has
// those that are for ever.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace thalweg {

namespace quick {

inline uint64_t load(const char* at, size_t bytes) {
  uint64_t out = 0;
  std::memcpy(&out, at, bytes);
  return out;
}
// The two halves of a product of 128 bits: every bit of the factors reaches nearly every bit of the result.
inline uint64_t mix(uint64_t a, uint64_t b) {
  auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}
inline constexpr uint64_t kA = 0x9e3779b97f4a7c15u, kB = 0xd1b54a32d192ed03u, kC = 0x8ebc6af09c88c6e3u;

}  // namespace quick

// Whether two texts are the same: those of up to 16 bytes, as most keys are, without a call, by loads from both ends.
inline bool same_text(std::string_view a, std::string_view b) {
  using quick::load;
  size_t n = a.size();
  if (n != b.size()) return false;
  const char *x = a.data(), *y = b.data();
  if (n > 16) return std::memcmp(x, y, n) == 0;
  if (n >= 8) return load(x, 8) == load(y, 8) && load(x + n - 8, 8) == load(y + n - 8, 8);
  if (n >= 4) return load(x, 4) == load(y, 4) && load(x + n - 4, 4) == load(y + n - 4, 4);
  for (size_t i = 0; i < n; ++i)
    if (x[i] != y[i]) return false;
  return true;
}

inline uint64_t quick_hash(uint64_t number) { return quick::mix(number ^ quick::kA, quick::kB); }

inline uint64_t quick_hash(std::string_view text) {
  using quick::load;
  const char* at = text.data();
  size_t n = text.size();
  uint64_t h = quick::kC ^ n;
  for (; n > 16; at += 16, n -= 16) h = quick::mix(load(at, 8) ^ quick::kA, load(at + 8, 8) ^ h);
  // The remaining bytes, from both ends: the loads overlap unless there are exactly as many as the two load.
  uint64_t head = 0, tail = 0;
  if (n >= 8) {
    head = load(at, 8);
    tail = load(at + n - 8, 8);
  } else if (n >= 4) {
    head = load(at, 4);
    tail = load(at + n - 4, 4);
  } else if (n > 0) {
    head = static_cast<uint64_t>(static_cast<unsigned char>(at[0])) << 16 |
           static_cast<uint64_t>(static_cast<unsigned char>(at[n >> 1])) << 8 | static_cast<unsigned char>(at[n - 1]);
  }
  return quick::mix(quick::mix(head ^ quick::kA, tail ^ h), quick::kB ^ text.size());
}

}  // namespace thalweg
