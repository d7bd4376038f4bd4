// Parsing patterns: groups on a stack, so that deep nesting needs no deep recursion here.
#include <algorithm>
#include <utility>

#include "regex/read_runes.h"

namespace thalweg::regex {
namespace {

using NodePtr = std::unique_ptr<Node>;
using Kind = Node::Kind;

constexpr int kMostRepeats = 1000;
// The tree is walked recursively later on.
constexpr size_t kDeepest = 5000;

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
        return push_set(runes().read_class());
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
    runes().add(set, rune, rune);
    push_set(std::move(set));
  }
  // Reads characters with the flags of this place.
  RuneReader runes() { return RuneReader(rest_, flags_.fold); }

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
    if (runes().read_set_escape(set)) return push_set(std::move(set));
    push_rune(runes().read_escape());
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
