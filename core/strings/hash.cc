// FarmHash (Pike, Google), SipHash (Aumasson and Bernstein) and MurmurHash64A (Appleby), from their published
// definitions.
#include "strings/hash.h"

#include <bit>
#include <cstring>
#include <utility>

namespace thalweg {
namespace {

static_assert(std::endian::native == std::endian::little, "the hashes read little-endian words");

constexpr uint64_t k0 = 0xc3a5c85c97cb3127u, k1 = 0xb492b66fbe98f273u, k2 = 0x9ae16a3b2f90404fu;

uint64_t load64(const char* p) {
  uint64_t x;
  std::memcpy(&x, p, 8);
  return x;
}
uint64_t load32(const char* p) {
  uint32_t x;
  std::memcpy(&x, p, 4);
  return x;
}
uint64_t shift_mix(uint64_t x) { return x ^ (x >> 47); }
uint64_t mix(uint64_t u, uint64_t v, uint64_t mul) { return shift_mix((v ^ shift_mix((u ^ v) * mul)) * mul) * mul; }

struct Pair {
  uint64_t first = 0, second = 0;
};

// Mixes 32 bytes with two seeds.
Pair weak_mix(const char* s, uint64_t a, uint64_t b) {
  uint64_t w = load64(s), x = load64(s + 8), y = load64(s + 16), z = load64(s + 24);
  a += w;
  b = std::rotr(b + a + z, 21);
  uint64_t c = a;
  a += x + y;
  b += std::rotr(a, 44);
  return {a + z, b + c};
}

uint64_t farm_up_to_16(const char* s, size_t n) {
  uint64_t mul = k2 + n * 2;
  if (n >= 8) {
    uint64_t a = load64(s) + k2, b = load64(s + n - 8);
    return mix(std::rotr(b, 37) * mul + a, (std::rotr(a, 25) + b) * mul, mul);
  }
  if (n >= 4) return mix(n + (load32(s) << 3), load32(s + n - 4), mul);
  if (n > 0) {
    auto byte = [s](size_t i) { return static_cast<uint64_t>(static_cast<uint8_t>(s[i])); };
    uint64_t y = byte(0) + (byte(n >> 1) << 8), z = n + (byte(n - 1) << 2);
    return shift_mix((y * k2) ^ (z * k0)) * k2;
  }
  return k2;
}

uint64_t farm_up_to_32(const char* s, size_t n) {
  uint64_t mul = k2 + n * 2, a = load64(s) * k1, b = load64(s + 8), c = load64(s + n - 8) * mul;
  uint64_t d = load64(s + n - 16) * k2;
  return mix(std::rotr(a + b, 43) + std::rotr(c, 30) + d, a + std::rotr(b + k2, 18) + c, mul);
}

uint64_t farm_up_to_64(const char* s, size_t n) {
  uint64_t mul = k2 + n * 2, a = load64(s) * k2, b = load64(s + 8), c = load64(s + n - 8) * mul;
  uint64_t d = load64(s + n - 16) * k2;
  uint64_t y = std::rotr(a + b, 43) + std::rotr(c, 30) + d, z = mix(y, a + std::rotr(b + k2, 18) + c, mul);
  uint64_t e = load64(s + 16) * mul, f = load64(s + 24);
  uint64_t g = (y + load64(s + n - 32)) * mul, h = (z + load64(s + n - 24)) * mul;
  return mix(std::rotr(e + f, 43) + std::rotr(g, 30) + h, e + std::rotr(f + a, 18) + g, mul);
}

}  // namespace

uint64_t fingerprint64(std::string_view text) {
  const char* s = text.data();
  size_t n = text.size();
  if (n <= 16) return farm_up_to_16(s, n);
  if (n <= 32) return farm_up_to_32(s, n);
  if (n <= 64) return farm_up_to_64(s, n);
  constexpr uint64_t seed = 81;
  uint64_t x = seed * k2 + load64(s), y = seed * k1 + 113, z = shift_mix(y * k2 + 113) * k2;
  Pair v, w;
  const char* end = s + (n - 1) / 64 * 64;
  const char* last = s + n - 64;
  auto round = [&](uint64_t mul, uint64_t weight) {
    x = std::rotr(x + y + v.first + load64(s + 8), 37) * mul;
    y = std::rotr(y + v.second + load64(s + 48), 42) * mul;
    x ^= w.second * weight;
    y += v.first * weight + load64(s + 40);
    z = std::rotr(z + w.first, 33) * mul;
    v = weak_mix(s, v.second * mul, x + w.first);
    w = weak_mix(s + 32, z + w.second, y + load64(s + 16));
    std::swap(z, x);
  };
  for (; s != end; s += 64) round(k1, 1);
  uint64_t mul = k1 + ((z & 0xff) << 1);
  s = last;
  w.first += (n - 1) & 63;
  v.first += w.first;
  w.first += v.first;
  round(mul, 9);
  return mix(mix(v.first, w.first, mul) + shift_mix(y) * k0 + z, mix(v.second, w.second, mul) + x, mul);
}

uint64_t sip_hash(uint64_t key0, uint64_t key1, std::string_view text) {
  uint64_t v0 = key0 ^ 0x736f6d6570736575u, v1 = key1 ^ 0x646f72616e646f6du, v2 = key0 ^ 0x6c7967656e657261u,
           v3 = key1 ^ 0x7465646279746573u;
  auto rounds = [&](int count) {
    for (int i = 0; i < count; ++i) {
      v0 += v1, v2 += v3;
      v1 = std::rotl(v1, 13) ^ v0, v3 = std::rotl(v3, 16) ^ v2;
      v0 = std::rotl(v0, 32);
      v2 += v1, v0 += v3;
      v1 = std::rotl(v1, 17) ^ v2, v3 = std::rotl(v3, 21) ^ v0;
      v2 = std::rotl(v2, 32);
    }
  };
  auto absorb = [&](uint64_t word) {
    v3 ^= word;
    rounds(2);
    v0 ^= word;
  };
  const char* s = text.data();
  size_t n = text.size(), whole = n / 8 * 8;
  for (size_t i = 0; i < whole; i += 8) absorb(load64(s + i));
  uint64_t rest = static_cast<uint64_t>(n) << 56;
  for (size_t i = whole; i < n; ++i) rest |= static_cast<uint64_t>(static_cast<uint8_t>(s[i])) << (8 * (i - whole));
  absorb(rest);
  v2 ^= 0xff;
  rounds(4);
  return v0 ^ v1 ^ v2 ^ v3;
}

uint64_t murmur_hash64(std::string_view text, uint64_t seed) {
  constexpr uint64_t m = 0xc6a4a7935bd1e995u;
  const char* s = text.data();
  size_t n = text.size(), whole = n / 8 * 8;
  uint64_t h = seed ^ (n * m);
  for (size_t i = 0; i < whole; i += 8) h = (h ^ shift_mix(load64(s + i) * m) * m) * m;
  if (whole < n) {
    for (size_t i = whole; i < n; ++i) h ^= static_cast<uint64_t>(static_cast<uint8_t>(s[i])) << (8 * (i - whole));
    h *= m;
  }
  return shift_mix(shift_mix(h) * m);
}

}  // namespace thalweg
