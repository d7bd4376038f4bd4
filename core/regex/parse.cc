// Parsing patterns: groups on a stack, so that deep nesting needs no deep recursion here.
#include <algorithm>
#include <utility>

#include "regex/syntax.h"

namespace thalweg::regex {
namespace {

using NodePtr = std::unique_ptr<Node>;
using Kind = Node::Kind;

constexpr int kMostRepeats = 1000;
// The tree is walked recursively later on.
constexpr size_t kDeepest = 5000;

[[noreturn]] void refuse(const char* what, std::string_view where) {
  throw std::string(what) + (where.empty() ? "" : ": ") + std::string(where);
}

bool is_octal(char c) { return c >= '0' && c <= '7'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '_'; }

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// Takes a character off the front of valid UTF-8.
uint32_t take_rune(std::string_view& text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  uint32_t rune = length == 1 ? lead : lead & (0xff >> (length + 1));
  for (size_t i = 1; i < length; ++i) rune = rune << 6 | (static_cast<unsigned char>(text[i]) & 0x3f);
  text.remove_prefix(length);
  return rune;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const auto lead = static_cast<unsigned char>(text[0]);
    const size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
    if (length == 0 || text.size() < length) return false;
    for (size_t i = 1; i < length; ++i)
      if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return false;
    const uint32_t rune = take_rune(text);
    if ((length == 3 && rune < 0x800) || (length == 4 && rune < 0x10000) || rune > kLastRune) return false;
  }
  return true;
}

struct Flags {
  bool fold = false, lines = false, dot_newline = false, lazy = false;
};

struct AsciiClass {
  const char* name;
  const char* ranges;  // pairs of first and last
};

constexpr AsciiClass kAsciiClasses[] = {
    {"alnum", "09AZaz"}, {"alpha", "AZaz"}, {"ascii", "\x01\x7f"}, {"blank", "\t\t  "},  {"cntrl", "\x01\x1f\x7f\x7f"},
    {"digit", "09"},     {"graph", "!~"},   {"lower", "az"},       {"print", " ~"},      {"punct", "!/:@[`{~"},
    {"space", "\t\r  "}, {"upper", "AZ"},   {"word", "09AZ__az"},  {"xdigit", "09AFaf"},
};

class Parser {
 public:
  explicit Parser(std::string_view pattern) : whole_(pattern), rest_(pattern) {}

  Parsed parse() {
    if (!is_utf8(whole_)) refuse("invalid UTF-8", "");
    levels_.emplace_back();
    while (!rest_.empty()) parse_next();
    if (levels_.size() > 1) refuse("missing )", whole_);
    NodePtr root = close_level();
    return {std::move(root), groups_};
  }

 private:
  // A group that is open: its alternatives, the last of which is being read.
  struct Level {
    std::vector<NodePtr> alternatives;
    std::vector<NodePtr> items;
    Flags outer;    // of what follows the group
    int group = 0;  // 0: none
  };

  Level& level() { return levels_.back(); }
  void push(NodePtr node) { level().items.push_back(std::move(node)); }

  static NodePtr with_parts(NodePtr node, std::vector<NodePtr> parts) {
    for (const NodePtr& part : parts) node->copies = std::max(node->copies, part->copies);
    node->parts = std::move(parts);
    return node;
  }

  static NodePtr concatenated(std::vector<NodePtr> items) {
    if (items.empty()) return std::make_unique<Node>(Kind::empty);
    if (items.size() == 1) return std::move(items[0]);
    auto node = std::make_unique<Node>(Kind::concatenation);
    return with_parts(std::move(node), std::move(items));
  }

  NodePtr close_level() {
    Level closed = std::move(level());
    levels_.pop_back();
    closed.alternatives.push_back(concatenated(std::move(closed.items)));
    NodePtr node;
    if (closed.alternatives.size() == 1) {
      node = std::move(closed.alternatives[0]);
    } else {
      node = with_parts(std::make_unique<Node>(Kind::alternatives), std::move(closed.alternatives));
    }
    if (closed.group == 0) return node;
    auto group = std::make_unique<Node>(Kind::group);
    group->group = closed.group;
    group->copies = node->copies;
    group->parts.push_back(std::move(node));
    return group;
  }

  void parse_next() {
    const std::string_view repeated = std::exchange(last_repetition_, {});
    switch (const char c = rest_[0]) {
      case '(':
        return open_group();
      case '|':
        level().alternatives.push_back(concatenated(std::move(level().items)));
        level().items.clear();
        return rest_.remove_prefix(1);
      case ')': {
        if (levels_.size() == 1) refuse("unexpected )", whole_);
        flags_ = level().outer;
        NodePtr node = close_level();
        push(std::move(node));
        return rest_.remove_prefix(1);
      }
      case '^':
        rest_.remove_prefix(1);
        return push_assertion(flags_.lines ? kBeginLine : kBeginText);
      case '$':
        rest_.remove_prefix(1);
        return push_assertion(flags_.lines ? kEndLine : kEndText);
      case '.': {
        rest_.remove_prefix(1);
        RuneSet set;
        if (!flags_.dot_newline) set.add('\n', '\n');
        set.negate();
        return push_set(std::move(set));
      }
      case '[':
        return push_set(parse_class());
      case '*':
      case '+':
      case '?': {
        const std::string_view begin = rest_;
        rest_.remove_prefix(1);
        return repeat(c == '+' ? 1 : 0, c == '?' ? 1 : -1, begin, repeated);
      }
      case '{': {
        const std::string_view begin = rest_;
        int least = 0, most = 0;
        if (!parse_counts(least, most)) break;
        if (least > kMostRepeats || most > kMostRepeats || (most >= 0 && most < least))
          refuse("invalid repetition size", begin.substr(0, begin.size() - rest_.size()));
        return repeat(least, most, begin, repeated);
      }
      case '\\':
        return parse_backslash();
      default:
        break;
    }
    push_rune(take_rune(rest_));
  }

  // {n}, {n,} or {n,m}; anything else is no repetition.
  bool parse_counts(int& least, int& most) {
    std::string_view text = rest_.substr(1);
    auto number = [&](int& out) {
      if (text.empty() || !is_digit(text[0])) return false;
      if (text.size() >= 2 && text[0] == '0' && is_digit(text[1])) return false;
      int64_t value = 0;
      for (; !text.empty() && is_digit(text[0]); text.remove_prefix(1))
        value = std::min<int64_t>(value * 10 + (text[0] - '0'), 100'000'000);
      out = static_cast<int>(value);
      return true;
    };
    if (!number(least) || text.empty()) return false;
    most = least;
    if (text[0] == ',') {
      text.remove_prefix(1);
      if (text.empty()) return false;
      most = -1;
      if (text[0] != '}' && !number(most)) return false;
    }
    if (text.empty() || text[0] != '}') return false;
    rest_ = text.substr(1);
    return true;
  }

  void repeat(int least, int most, std::string_view begin, std::string_view repeated) {
    bool greedy = !flags_.lazy;
    if (!rest_.empty() && rest_[0] == '?') {
      greedy = !greedy;
      rest_.remove_prefix(1);
    }
    const std::string_view op = begin.substr(0, begin.size() - rest_.size());
    if (!repeated.empty()) refuse("bad repetition operator", repeated.substr(0, repeated.size() - rest_.size()));
    if (level().items.empty()) refuse("no argument for repetition operator", op);
    auto node = std::make_unique<Node>(Kind::repetition);
    node->least = least;
    node->most = most;
    node->greedy = greedy;
    // Flags between two operators let them follow each other: each nests the one before.
    chain_ = level().items.back()->kind == Kind::repetition ? chain_ + 1 : 0;
    if (chain_ > kDeepest) refuse("bad repetition operator", op);
    node->copies = level().items.back()->copies * std::max({1, least, most});
    if (node->copies > kMostRepeats) refuse("invalid repetition size", op);
    node->parts.push_back(std::move(level().items.back()));
    level().items.back() = std::move(node);
    last_repetition_ = begin;
  }

  void push_assertion(uint8_t assertion) {
    auto node = std::make_unique<Node>(Kind::assertion);
    node->assertion = assertion;
    push(std::move(node));
  }
  void push_set(RuneSet set) {
    auto node = std::make_unique<Node>(Kind::runes);
    set.normalize();
    node->runes = std::move(set);
    push(std::move(node));
  }
  void push_rune(uint32_t rune) {
    RuneSet set;
    add(set, rune, rune);
    push_set(std::move(set));
  }
  void add(RuneSet& set, uint32_t first, uint32_t last) const {
    flags_.fold ? set.add_folded(first, last) : set.add(first, last);
  }
  // A set within another; a negated one is folded first.
  void add(RuneSet& set, const RuneSet& other, bool negated) const {
    RuneSet folded;
    for (const auto& [first, last] : other.ranges()) add(folded, first, last);
    if (negated) folded.negate();
    set.add(folded);
  }

  void open_group() {
    if (levels_.size() > kDeepest) refuse("expression nests too deeply", whole_.substr(0, 32));
    Level opened;
    opened.outer = flags_;
    if (rest_.size() > 2 && rest_[1] == '?') {
      const bool named_as_python = rest_.size() > 4 && rest_[2] == 'P' && rest_[3] == '<';
      const bool named = rest_[2] == '<';
      if (named_as_python || named) {
        parse_name(named_as_python ? 4 : 3);
      } else if (!parse_flags()) {
        return;
      } else {
        levels_.push_back(std::move(opened));
        return;
      }
    } else {
      if (rest_.size() == 2 && rest_[1] == '?') refuse("invalid perl operator", rest_);
      rest_.remove_prefix(1);
    }
    opened.group = ++groups_;
    levels_.push_back(std::move(opened));
  }

  void parse_name(size_t begin) {
    const size_t end = rest_.find('>', begin);
    if (end == std::string_view::npos) refuse("invalid named capture group", rest_);
    const std::string_view name = rest_.substr(begin, end - begin);
    std::string_view left = name;
    bool good = !name.empty();
    while (good && !left.empty()) good = is_name_rune(take_rune(left));
    if (!good) refuse("invalid named capture group", rest_.substr(0, end + 1));
    rest_.remove_prefix(end + 1);
  }

  static bool is_name_rune(uint32_t rune) {
    static const RuneSet* const runes = [] {
      auto* set = new RuneSet;
      for (const char* property : {"Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Mn", "Mc", "Nd", "Pc"})
        set->add(*property_named(property));
      set->normalize();
      return set;
    }();
    return std::any_of(runes->ranges().begin(), runes->ranges().end(),
                       [rune](const auto& range) { return range.first <= rune && rune <= range.second; });
  }

  // (?flags) changes those of the group that it stands in: false. (?flags: opens a group.
  bool parse_flags() {
    const std::string_view begin = rest_;
    rest_.remove_prefix(2);
    Flags flags = flags_;
    bool value = true, any = false;
    auto bad = [&] { refuse("invalid perl operator", begin.substr(0, begin.size() - rest_.size())); };
    while (true) {
      if (rest_.empty()) bad();
      const uint32_t c = take_rune(rest_);
      if (c == 'i' || c == 'm' || c == 's' || c == 'U') {
        (c == 'i' ? flags.fold : c == 'm' ? flags.lines : c == 's' ? flags.dot_newline : flags.lazy) = value;
        any = true;
      } else if (c == '-') {
        if (!value) bad();
        value = any = false;
      } else if (c == ':' || c == ')') {
        if (!value && !any) bad();
        flags_ = flags;
        return c == ':';
      } else {
        bad();
      }
    }
  }

  void parse_backslash() {
    if (rest_.size() == 1) refuse("trailing \\", "");
    switch (rest_[1]) {
      case 'A':
        rest_.remove_prefix(2);
        return push_assertion(kBeginText);
      case 'z':
        rest_.remove_prefix(2);
        return push_assertion(kEndText);
      case 'b':
        rest_.remove_prefix(2);
        return push_assertion(kWordBoundary);
      case 'B':
        rest_.remove_prefix(2);
        return push_assertion(kNoWordBoundary);
      case 'C':
        rest_.remove_prefix(2);
        return push(std::make_unique<Node>(Kind::byte));
      case 'Q':
        rest_.remove_prefix(2);
        while (!rest_.empty()) {
          if (rest_.starts_with("\\E")) return rest_.remove_prefix(2);
          push_rune(take_rune(rest_));
        }
        return;
      default:
        break;
    }
    RuneSet set;
    if (parse_class_escape(set)) return push_set(std::move(set));
    push_rune(parse_escape());
  }

  // \d, \pN and the like; false for other escapes.
  bool parse_class_escape(RuneSet& set) {
    if (rest_.size() < 2 || rest_[0] != '\\') return false;
    const char c = rest_[1];
    if (c == 'p' || c == 'P') return parse_property(set, c == 'P');
    const char* ranges = c == 'd' || c == 'D'   ? "09"
                         : c == 's' || c == 'S' ? "\t\n\f\r  "
                         : c == 'w' || c == 'W' ? "09AZ__az"
                                                : nullptr;
    if (ranges == nullptr) return false;
    rest_.remove_prefix(2);
    add(set, ascii(ranges), c == 'D' || c == 'S' || c == 'W');
    return true;
  }

  static RuneSet ascii(const char* ranges) {
    RuneSet set;
    for (const char* r = ranges; *r != '\0'; r += 2)
      set.add(static_cast<unsigned char>(r[0]), static_cast<unsigned char>(r[1]));
    return set;
  }

  bool parse_property(RuneSet& set, bool negated) {
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

  // One character behind a backslash.
  uint32_t parse_escape() {
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
        return parse_hex(bad);
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
  uint32_t parse_hex(const Bad& bad) {
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

  RuneSet parse_class() {
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
      if (parse_ascii_class(set) || parse_class_escape(set)) continue;
      const std::string_view at = rest_;
      const uint32_t low = class_rune(begin);
      uint32_t high = low;
      if (rest_.size() >= 2 && rest_[0] == '-' && rest_[1] != ']') {
        rest_.remove_prefix(1);
        high = class_rune(begin);
        if (high < low) refuse("invalid character class range", at.substr(0, at.size() - rest_.size()));
      }
      add(set, low, high);
    }
    rest_.remove_prefix(1);
    if (negated) set.negate();
    return set;
  }

  uint32_t class_rune(std::string_view begin) {
    if (rest_.empty()) refuse("missing ]", begin);
    return rest_[0] == '\\' ? parse_escape() : take_rune(rest_);
  }

  bool parse_ascii_class(RuneSet& set) {
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

  const std::string_view whole_;
  std::string_view rest_;
  std::vector<Level> levels_;
  Flags flags_;
  int groups_ = 0;
  size_t chain_ = 0;
  std::string_view last_repetition_;  // what follows the operator that has just been read, with it; empty: none
};

}  // namespace

Parsed parse(std::string_view pattern) { return Parser(pattern).parse(); }

}  // namespace thalweg::regex
