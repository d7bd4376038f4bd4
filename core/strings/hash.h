// Hashes whose values leave the process: bucket numbers in saved models, which must be TensorFlow's for ever, and the
// numbers of frames and rendezvous keys, which all tasks of a cluster must compute alike. Their formulas are fixed.
#pragma once

#include <cstdint>
#include <string_view>

namespace thalweg {

// FarmHash's Fingerprint64: fast, and stable across versions and machines.
uint64_t fingerprint64(std::string_view text);
// SipHash-2-4 with a 128-bit key: for untrusted input.
uint64_t sip_hash(uint64_t key0, uint64_t key1, std::string_view text);
// MurmurHash64A: the oldest of the bucket ops.
uint64_t murmur_hash64(std::string_view text, uint64_t seed);

// FNV-1a with 64 bits, over bytes: a few lines in any language.
constexpr uint64_t fnv1a64(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

// One number of two, in this order: SplitMix64's finalizer of a * 0x9e3779b97f4a7c15 + b + 1, modulo 2^64.
constexpr uint64_t combine64(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9e3779b97f4a7c15u + b + 1;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace thalweg
