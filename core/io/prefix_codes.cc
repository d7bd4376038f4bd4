// Building the decoding tables of canonical Huffman codes.
#include "io/prefix_codes.h"

#include <algorithm>
#include <array>

namespace thalweg {

using namespace prefix_codes;

namespace {

constexpr int kLongest = 15;

uint32_t reversed(uint32_t code, int bits) {
  uint32_t out = 0;
  for (int i = 0; i < bits; ++i) out |= (code >> i & 1) << (bits - 1 - i);
  return out;
}

}  // namespace

bool PrefixCodes::build(const uint8_t* lengths, int count, int most_root_bits, const uint32_t* symbols) {
  std::array<uint32_t, kLongest + 1> of_length{};
  int used = 0, longest = 0;
  for (int i = 0; i < count; ++i) {
    if (lengths[i] == 0) continue;
    ++of_length[lengths[i]];
    ++used;
    longest = std::max<int>(longest, lengths[i]);
  }
  int64_t left = 1;
  std::array<uint32_t, kLongest + 2> next{};
  for (int n = 1; n <= kLongest; ++n) {
    next[n + 1] = (next[n] + of_length[n]) << 1;
    left = left * 2 - of_length[n];
    if (left < 0) return false;
  }
  // Incomplete: valid only without codes, or with one code of a single bit, as in a block with one distance.
  if (left > 0 && !(used == 0 || (used == 1 && longest == 1))) return false;
  root_bits = std::clamp(longest, 1, most_root_bits);
  entries.assign(size_t{1} << root_bits, entry(invalid, 0, 0) | 1);

  // The longest code of each prefix says how large its second table is.
  std::vector<uint8_t> longest_behind;
  if (longest > root_bits) {
    longest_behind.resize(entries.size());
    auto codes = next;
    for (int i = 0; i < count; ++i) {
      int n = lengths[i];
      if (n == 0) continue;
      uint32_t code = reversed(codes[n]++, n);
      if (n > root_bits) {
        uint8_t& most = longest_behind[code & (entries.size() - 1)];
        most = std::max<uint8_t>(most, static_cast<uint8_t>(n));
      }
    }
    const size_t root_size = longest_behind.size();
    for (size_t prefix = 0; prefix < root_size; ++prefix) {
      if (longest_behind[prefix] == 0) continue;
      auto bits = static_cast<uint32_t>(longest_behind[prefix] - root_bits);
      entries[prefix] = entry(second_table, bits, static_cast<uint32_t>(entries.size())) | root_bits;
      entries.resize(entries.size() + (size_t{1} << bits), entry(invalid, 0, 0) | 1);
    }
  }
  for (int i = 0; i < count; ++i) {
    int n = lengths[i];
    if (n == 0) continue;
    uint32_t code = reversed(next[n]++, n);
    uint32_t* table = entries.data();
    int bits = root_bits, length = n;
    if (n > root_bits) {
      uint32_t pointer = entries[code & ((1u << root_bits) - 1)];
      table += value_of(pointer);
      bits = static_cast<int>(extra_of(pointer));
      code >>= root_bits;
      length = n - root_bits;
    }
    for (uint32_t at = code; at < 1u << bits; at += 1u << length) table[at] = symbols[i] | length;
  }
  return true;
}

}  // namespace thalweg
