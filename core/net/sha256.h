// SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104): the proof that a peer knows the cluster's key.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace thalweg::net {

using Digest = std::array<uint8_t, 32>;

Digest sha256(std::string_view message);
Digest hmac_sha256(std::string_view key, std::string_view message);
// Whether two digests are equal, in a time that does not depend on where they differ.
bool equal(const Digest& a, const Digest& b);

}  // namespace thalweg::net
