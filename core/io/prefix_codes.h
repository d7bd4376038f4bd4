// PrefixCodes: tables that decode the Huffman codes of deflated data by looking at the next bits.
//
// Codes have up to 15 bits and arrive with their first bit lowest. A code of up to `root_bits` is found in one step, a
// longer one in two.
#pragma once

#include <cstdint>
#include <vector>

namespace thalweg {
namespace prefix_codes {

// An entry of a table: how many bits to take, its kind, how many extra bits follow (or how many bits index the second
// table), and a value: the literal, the base of a length or distance, or where the second table begins.
enum Kind : uint32_t { literal = 0, base = 1, end_of_block = 2, second_table = 3, invalid = 4 };
constexpr uint32_t entry(Kind kind, uint32_t extra, uint32_t value) { return value << 16 | extra << 8 | kind << 5; }
constexpr uint32_t length_of(uint32_t e) { return e & 31; }
constexpr Kind kind_of(uint32_t e) { return static_cast<Kind>(e >> 5 & 7); }
constexpr uint32_t extra_of(uint32_t e) { return e >> 8 & 31; }
constexpr uint32_t value_of(uint32_t e) { return e >> 16; }

}  // namespace prefix_codes

struct PrefixCodes {
  int root_bits = 0;
  std::vector<uint32_t> entries;

  // Builds the tables for `count` symbols with codes of these lengths (0: none), each found as its entry in `symbols`.
  // False if the lengths are those of no prefix code.
  bool build(const uint8_t* lengths, int count, int most_root_bits, const uint32_t* symbols);
};

}  // namespace thalweg
