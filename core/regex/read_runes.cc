// Reading characters and sets of characters off a pattern.
#include "regex/read_runes.h"

#include <string>

namespace thalweg::regex {
namespace {

bool is_octal(char c) { return c >= '0' && c <= '7'; }

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

struct AsciiClass {
  const char* name;
  const char* ranges;  // pairs of first and last
};

constexpr AsciiClass kAsciiClasses[] = {
    {"alnum", "09AZaz"}, {"alpha", "AZaz"}, {"ascii", "\x01\x7f"}, {"blank", "\t\t  "},  {"cntrl", "\x01\x1f\x7f\x7f"},
    {"digit", "09"},     {"graph", "!~"},   {"lower", "az"},       {"print", " ~"},      {"punct", "!/:@[`{~"},
    {"space", "\t\r  "}, {"upper", "AZ"},   {"word", "09AZ__az"},  {"xdigit", "09AFaf"},
};

RuneSet ascii(const char* ranges) {
  RuneSet set;
  for (const char* r = ranges; *r != '\0'; r += 2)
    set.add(static_cast<unsigned char>(r[0]), static_cast<unsigned char>(r[1]));
  return set;
}

}  // namespace

void refuse(const char* what, std::string_view where) {
  throw std::string(what) + (where.empty() ? "" : ": ") + std::string(where);
}

uint32_t take_rune(std::string_view& text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  uint32_t rune = length == 1 ? lead : lead & (0xff >> (length + 1));
  for (size_t i = 1; i < length; ++i) rune = rune << 6 | (static_cast<unsigned char>(text[i]) & 0x3f);
  text.remove_prefix(length);
  return rune;
}

void RuneReader::add(RuneSet& set, const RuneSet& other, bool negated) const {
  RuneSet folded;
  for (const auto& [first, last] : other.ranges()) add(folded, first, last);
  if (negated) folded.negate();
  set.add(folded);
}

bool RuneReader::read_set_escape(RuneSet& set) {
  if (rest_.size() < 2 || rest_[0] != '\\') return false;
  const char c = rest_[1];
  if (c == 'p' || c == 'P') return read_property(set, c == 'P');
  const char* ranges = c == 'd' || c == 'D'   ? "09"
                       : c == 's' || c == 'S' ? "\t\n\f\r  "
                       : c == 'w' || c == 'W' ? "09AZ__az"
                                              : nullptr;
  if (ranges == nullptr) return false;
  rest_.remove_prefix(2);
  add(set, ascii(ranges), c == 'D' || c == 'S' || c == 'W');
  return true;
}

bool RuneReader::read_property(RuneSet& set, bool negated) {
  const std::string_view begin = rest_;
  rest_.remove_prefix(2);
  if (rest_.empty()) refuse("invalid character class range", begin);
  std::string_view name;
  if (rest_[0] == '{') {
    const size_t end = rest_.find('}');
    if (end == std::string_view::npos) refuse("invalid character class range", begin);
    name = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
  } else {
    const std::string_view at = rest_;
    take_rune(rest_);
    name = at.substr(0, at.size() - rest_.size());
  }
  if (name.starts_with('^')) {
    negated = !negated;
    name.remove_prefix(1);
  }
  const RuneSet* found = property_named(name);
  if (found == nullptr) refuse("invalid character class range", begin.substr(0, begin.size() - rest_.size()));
  add(set, *found, negated);
  return true;
}

uint32_t RuneReader::read_escape() {
  const std::string_view begin = rest_;
  auto bad = [&] { refuse("invalid escape sequence", begin.substr(0, begin.size() - rest_.size())); };
  rest_.remove_prefix(1);
  if (rest_.empty()) refuse("trailing \\", "");
  const uint32_t c = take_rune(rest_);
  if (c < 0x80 && (c == '_' || !is_word(static_cast<char>(c)))) return c;
  switch (c) {
    case 'a':
      return '\a';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'v':
      return '\v';
    case 'x':
      return read_hex(bad);
    default:
      break;
  }
  if (c > '7' || c < '0') bad();
  // A single digit that is not 0 would refer to a group.
  if (c != '0' && (rest_.empty() || !is_octal(rest_[0]))) bad();
  uint32_t rune = c - '0';
  for (int i = 0; i < 2 && !rest_.empty() && is_octal(rest_[0]); ++i, rest_.remove_prefix(1))
    rune = rune * 8 + static_cast<uint32_t>(rest_[0] - '0');
  return rune;
}

template <typename Bad>
uint32_t RuneReader::read_hex(const Bad& bad) {
  if (rest_.empty()) bad();
  uint32_t rune = 0;
  if (rest_[0] != '{') {
    if (rest_.size() < 2 || hex_digit(rest_[0]) < 0 || hex_digit(rest_[1]) < 0) {
      take_rune(rest_);
      if (!rest_.empty()) take_rune(rest_);
      bad();
    }
    rune = static_cast<uint32_t>(hex_digit(rest_[0]) * 16 + hex_digit(rest_[1]));
    rest_.remove_prefix(2);
    return rune;
  }
  rest_.remove_prefix(1);
  int digits = 0;
  while (!rest_.empty() && hex_digit(rest_[0]) >= 0) {
    rune = rune * 16 + static_cast<uint32_t>(hex_digit(rest_[0]));
    rest_.remove_prefix(1);
    if (++digits > 0 && rune > kLastRune) bad();
  }
  if (digits == 0 || rest_.empty() || rest_[0] != '}') {
    if (!rest_.empty()) take_rune(rest_);
    bad();
  }
  rest_.remove_prefix(1);
  return rune;
}

RuneSet RuneReader::read_class() {
  const std::string_view begin = rest_;
  rest_.remove_prefix(1);
  RuneSet set;
  bool negated = false;
  if (!rest_.empty() && rest_[0] == '^') {
    negated = true;
    rest_.remove_prefix(1);
  }
  for (bool first = true; rest_.empty() || rest_[0] != ']' || first; first = false) {
    if (rest_.empty()) refuse("missing ]", begin);
    if (read_ascii_class(set) || read_set_escape(set)) continue;
    const std::string_view at = rest_;
    const uint32_t low = read_class_rune(begin);
    uint32_t high = low;
    if (rest_.size() >= 2 && rest_[0] == '-' && rest_[1] != ']') {
      rest_.remove_prefix(1);
      high = read_class_rune(begin);
      if (high < low) refuse("invalid character class range", at.substr(0, at.size() - rest_.size()));
    }
    add(set, low, high);
  }
  rest_.remove_prefix(1);
  if (negated) set.negate();
  return set;
}

uint32_t RuneReader::read_class_rune(std::string_view begin) {
  if (rest_.empty()) refuse("missing ]", begin);
  return rest_[0] == '\\' ? read_escape() : take_rune(rest_);
}

bool RuneReader::read_ascii_class(RuneSet& set) {
  if (!rest_.starts_with("[:")) return false;
  const size_t end = rest_.find(":]", 2);
  if (end == std::string_view::npos) return false;
  std::string_view name = rest_.substr(2, end - 2);
  const bool negated = name.starts_with('^');
  if (negated) name.remove_prefix(1);
  for (const AsciiClass& known : kAsciiClasses) {
    if (name != known.name) continue;
    RuneSet runes = ascii(known.ranges);
    // The tables are strings, which cannot hold the character 0.
    if (name == "ascii" || name == "cntrl") runes.add(0, 1);
    rest_.remove_prefix(end + 2);
    add(set, runes, negated);
    return true;
  }
  refuse("invalid character class range", rest_.substr(0, end + 2));
}

}  // namespace thalweg::regex
