// String hashes whose values are part of saved models: bucket numbers must be the same as TensorFlow's, for ever.
#pragma once

#include <cstdint>
#include <string_view>

namespace thalweg {

// FarmHash's Fingerprint64: fast, and stable across versions and machines.
uint64_t fingerprint64(std::string_view text);
// SipHash-2-4 with a 128-bit key: for input from strangers.
uint64_t sip_hash(uint64_t key0, uint64_t key1, std::string_view text);
// MurmurHash64A: the oldest of the bucket ops.
uint64_t murmur_hash64(std::string_view text, uint64_t seed);

}  // namespace thalweg
