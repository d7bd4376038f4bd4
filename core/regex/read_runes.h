// RuneReader: reads what stands for a character or a set of characters off the front of a pattern.
//
// All functions throw std::string with RE2's words for what is wrong. The pattern is valid UTF-8.
#pragma once

#include <cstdint>
#include <string_view>

#include "regex/syntax.h"

namespace thalweg::regex {

[[noreturn]] void refuse(const char* what, std::string_view where);

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
inline bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '_'; }

// Takes a character off the front of valid UTF-8.
uint32_t take_rune(std::string_view& text);

class RuneReader {
 public:
  // What is read is taken off `rest`. `fold`: sets hold all characters that differ from theirs in case only.
  RuneReader(std::string_view& rest, bool fold) : rest_(rest), fold_(fold) {}

  // \d, \pN and the like; false, and nothing is read, if something else follows.
  bool read_set_escape(RuneSet& set);
  // One character behind a backslash.
  uint32_t read_escape();
  // A set in brackets.
  RuneSet read_class();

  void add(RuneSet& set, uint32_t first, uint32_t last) const {
    fold_ ? set.add_folded(first, last) : set.add(first, last);
  }

 private:
  // A set within another; a negated one is folded first.
  void add(RuneSet& set, const RuneSet& other, bool negated) const;
  bool read_property(RuneSet& set, bool negated);
  template <typename Bad>
  uint32_t read_hex(const Bad& bad);
  uint32_t read_class_rune(std::string_view begin);
  bool read_ascii_class(RuneSet& set);

  std::string_view& rest_;
  const bool fold_;
};

}  // namespace thalweg::regex
