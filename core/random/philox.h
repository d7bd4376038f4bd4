// Philox: the counter-based random number generator Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011).
//
// The i-th block of four 32-bit words is a pure function of a key and the counter `start + i`: any thread can begin
// anywhere, so that results do not depend on how a loop was divided. Copies are independent; nothing here locks.
#pragma once

#include <array>
#include <cstdint>
#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace thalweg {

class Philox {
 public:
  using Block = std::array<uint32_t, 4>;
  using Key = std::array<uint32_t, 2>;
  // So many blocks are made at a time by `blocks`, which lets the compiler use vector registers.
  static constexpr int kLanes = 16;

  Philox() = default;
  // The stream of a pair of seeds: one is the key, the other the upper half of the counter.
  Philox(uint64_t seed, uint64_t seed2)
      : counter_{0, 0, static_cast<uint32_t>(seed2), static_cast<uint32_t>(seed2 >> 32)},
        key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)} {}
  Philox(const Block& counter, const Key& key) : counter_(counter), key_(key) {}

  const Block& counter() const { return counter_; }
  const Key& key() const { return key_; }

  // Moves `count` blocks ahead.
  void skip(uint64_t count) {
    uint64_t low = counter_[0] | static_cast<uint64_t>(counter_[1]) << 32;
    uint64_t sum = low + count;
    counter_[0] = static_cast<uint32_t>(sum);
    counter_[1] = static_cast<uint32_t>(sum >> 32);
    if (sum < low && ++counter_[2] == 0) ++counter_[3];
  }

  Block next() {
    Block out;
    mix<1>(&out);
    skip(1);
    return out;
  }

  // The next kLanes blocks.
  void blocks(Block* out) {
#ifdef __AVX2__
    // The vector form leaves the upper half of the counter alone: not where the lower half is about to overflow.
    if ((counter_[0] | static_cast<uint64_t>(counter_[1]) << 32) < ~uint64_t{kLanes})
      mix_vectors(out);
    else
      mix<kLanes>(out);
#else
    mix<kLanes>(out);
#endif
    skip(kLanes);
  }

 private:
  template <int N>
  void mix(Block* out) const {
    uint32_t c0[N], c1[N], c2[N], c3[N];
    uint64_t low = counter_[0] | static_cast<uint64_t>(counter_[1]) << 32;
    uint64_t high = counter_[2] | static_cast<uint64_t>(counter_[3]) << 32;
    for (int i = 0; i < N; ++i) {
      uint64_t at = low + i, above = high + (at < low ? 1 : 0);
      c0[i] = static_cast<uint32_t>(at);
      c1[i] = static_cast<uint32_t>(at >> 32);
      c2[i] = static_cast<uint32_t>(above);
      c3[i] = static_cast<uint32_t>(above >> 32);
    }
    uint32_t k0 = key_[0], k1 = key_[1];
    for (int round = 0; round < 10; ++round) {
      for (int i = 0; i < N; ++i) {
        uint64_t a = uint64_t{0xD2511F53u} * c0[i], b = uint64_t{0xCD9E8D57u} * c2[i];
        uint32_t x0 = static_cast<uint32_t>(b >> 32) ^ c1[i] ^ k0, x2 = static_cast<uint32_t>(a >> 32) ^ c3[i] ^ k1;
        c1[i] = static_cast<uint32_t>(b);
        c3[i] = static_cast<uint32_t>(a);
        c0[i] = x0;
        c2[i] = x2;
      }
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < N; ++i) out[i] = {c0[i], c1[i], c2[i], c3[i]};
  }

#ifdef __AVX2__
  // The same as mix<kLanes>, four blocks to a register: a word in the lower half of each 64-bit lane, because that is
  // where the widening multiplication reads. The compiler does not find this by itself.
  void mix_vectors(Block* out) const {
    constexpr int kVectors = kLanes / 4;
    const __m256i low_half = _mm256_set1_epi64x(0xffffffff);
    const __m256i m0 = _mm256_set1_epi64x(0xD2511F53), m1 = _mm256_set1_epi64x(0xCD9E8D57);
    __m256i c0[kVectors], c1[kVectors], c2[kVectors], c3[kVectors];
    auto at = static_cast<long long>(counter_[0] | static_cast<uint64_t>(counter_[1]) << 32);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      __m256i count =
          _mm256_add_epi64(_mm256_set1_epi64x(at), _mm256_setr_epi64x(4 * v, 4 * v + 1, 4 * v + 2, 4 * v + 3));
      c0[v] = _mm256_and_si256(count, low_half);
      c1[v] = _mm256_srli_epi64(count, 32);
      c2[v] = _mm256_set1_epi64x(counter_[2]);
      c3[v] = _mm256_set1_epi64x(counter_[3]);
    }
    uint32_t k0 = key_[0], k1 = key_[1];
    for (int round = 0; round < 10; ++round) {
      const __m256i x0 = _mm256_set1_epi64x(k0), x1 = _mm256_set1_epi64x(k1);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        __m256i a = _mm256_mul_epu32(c0[v], m0), b = _mm256_mul_epu32(c2[v], m1);
        c0[v] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(b, 32), c1[v]), x0);
        c2[v] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(a, 32), c3[v]), x1);
        c1[v] = _mm256_and_si256(b, low_half);
        c3[v] = _mm256_and_si256(a, low_half);
      }
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      __m256i front = _mm256_or_si256(c0[v], _mm256_slli_epi64(c1[v], 32));
      __m256i back = _mm256_or_si256(c2[v], _mm256_slli_epi64(c3[v], 32));
      __m256i even = _mm256_unpacklo_epi64(front, back), odd = _mm256_unpackhi_epi64(front, back);
      auto* to = reinterpret_cast<__m128i*>(out + 4 * v);
      _mm_storeu_si128(to, _mm256_castsi256_si128(even));
      _mm_storeu_si128(to + 1, _mm256_castsi256_si128(odd));
      _mm_storeu_si128(to + 2, _mm256_extracti128_si256(even, 1));
      _mm_storeu_si128(to + 3, _mm256_extracti128_si256(odd, 1));
    }
  }
#endif

  Block counter_{};
  Key key_{};
};

// The words of a Philox one by one.
class PhiloxWords {
 public:
  explicit PhiloxWords(Philox generator) : generator_(generator) {}
  // The stream from word `index` on.
  PhiloxWords(Philox generator, uint64_t index) : generator_(generator) {
    generator_.skip(index / 4);
    if (index % 4 != 0) {
      block_ = generator_.next();
      used_ = static_cast<int>(index % 4);
    }
  }
  uint32_t operator()() {
    if (used_ == 4) {
      block_ = generator_.next();
      used_ = 0;
    }
    return block_[used_++];
  }

 private:
  Philox generator_;
  Philox::Block block_{};
  int used_ = 4;
};

}  // namespace thalweg
