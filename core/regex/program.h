// Program: a pattern as instructions over bytes, for machines that follow all alternatives at once.
#pragma once

#include <algorithm>
#include <array>
#include <bitset>
#include <cstdint>
#include <string_view>
#include <vector>

#include "regex/syntax.h"

namespace thalweg::regex {

struct Instruction {
  enum class Kind : uint8_t { bytes, either, capture, assertion, match };
  Kind kind = Kind::match;
  uint8_t assertion = 0;  // Assertion, what must hold
  int32_t next = 0;       // either: the preferred way; bytes: the first of its ranges
  int32_t other = 0;      // either: the second choice; capture: the number of the place; bytes: how many ranges
};

// Bytes and where they lead to. The ranges of an instruction are in order, and apart from each other.
struct ByteRange {
  uint8_t low, high;
  int32_t next;
};

struct Program {
  std::vector<Instruction> code;
  std::vector<ByteRange> ranges;
  int32_t start = 0;
  int groups = 0;
  // Bytes that no instruction tells apart have the same class.
  std::array<uint8_t, 256> class_of{};
  int classes = 0;
  // The bytes with which a match can begin; not known if it can be empty.
  bool knows_first = false;
  std::bitset<256> first;

  // Where an instruction for bytes leads to with this one; -1: nowhere.
  int32_t after(const Instruction& bytes, int byte) const {
    const ByteRange* begin = ranges.data() + bytes.next;
    const ByteRange* end = begin + bytes.other;
    if (bytes.other > 8)
      begin = std::partition_point(begin, end, [byte](const ByteRange& each) { return each.high < byte; });
    for (; begin != end && begin->low <= byte; ++begin)
      if (byte <= begin->high) return begin->next;
    return -1;
  }
};

// Throws std::string if the program would be too large.
Program compile(const Parsed& parsed);

inline bool is_word_byte(int byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') || byte == '_';
}

// What holds between two bytes; -1 stands for the end of the text on either side.
inline uint8_t holds_between(int before, int after) {
  uint8_t flags = 0;
  if (before < 0) flags |= kBeginText;
  if (after < 0) flags |= kEndText;
  if (before < 0 || before == '\n') flags |= kBeginLine;
  if (after < 0 || after == '\n') flags |= kEndLine;
  flags |= is_word_byte(before) != is_word_byte(after) ? kWordBoundary : kNoWordBoundary;
  return flags;
}

}  // namespace thalweg::regex
