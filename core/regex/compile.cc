// Compiling: from the tree to instructions, characters as the bytes of their UTF-8.
#include <algorithm>
#include <map>
#include <string>

#include "regex/program.h"

namespace thalweg::regex {
namespace {

using Kind = Instruction::Kind;
constexpr size_t kMostInstructions = 170'000;
constexpr size_t kMostRanges = 1'000'000;

[[noreturn]] void refuse() { throw std::string("pattern too large - compile failed"); }

int encode(uint32_t rune, uint8_t* out) {
  if (rune < 0x80) {
    out[0] = static_cast<uint8_t>(rune);
    return 1;
  }
  const int length = rune < 0x800 ? 2 : rune < 0x10000 ? 3 : 4;
  for (int i = length - 1; i > 0; --i, rune >>= 6) out[i] = static_cast<uint8_t>(0x80 | (rune & 0x3f));
  out[0] = static_cast<uint8_t>((0xf00 >> length) | rune);
  return length;
}

class Compiler {
 public:
  explicit Compiler(Program& program) : program_(program) {}

  // Each of these returns where the code begins that goes on at `next`: code is made from its end.
  int32_t node(const Node& node, int32_t next) {
    switch (node.kind) {
      case Node::Kind::empty:
        return next;
      case Node::Kind::runes:
        return runes(node.runes, next);
      case Node::Kind::byte:
        return bytes({{0, 255, next}});
      case Node::Kind::assertion: {
        const int32_t at = add(Kind::assertion, next);
        program_.code[at].assertion = node.assertion;
        return at;
      }
      case Node::Kind::group: {
        const int32_t end = add(Kind::capture, next, 2 * node.group + 1);
        const int32_t body = this->node(*node.parts[0], end);
        return add(Kind::capture, body, 2 * node.group);
      }
      case Node::Kind::concatenation:
        for (auto part = node.parts.rbegin(); part != node.parts.rend(); ++part) next = this->node(**part, next);
        return next;
      case Node::Kind::alternatives: {
        int32_t at = this->node(*node.parts.back(), next);
        for (auto part = node.parts.rbegin() + 1; part != node.parts.rend(); ++part) {
          const int32_t preferred = this->node(**part, next);
          at = add(Kind::either, preferred, at);
        }
        return at;
      }
      case Node::Kind::repetition:
        return repetition(node, next);
    }
    return next;
  }

  int32_t add(Kind kind, int32_t next, int32_t other = 0) {
    if (program_.code.size() >= kMostInstructions) refuse();
    Instruction instruction;
    instruction.kind = kind;
    instruction.next = next;
    instruction.other = other;
    program_.code.push_back(instruction);
    return static_cast<int32_t>(program_.code.size() - 1);
  }

 private:
  int32_t bytes(const std::vector<ByteRange>& ranges) {
    if (program_.ranges.size() + ranges.size() > kMostRanges) refuse();
    const int32_t at =
        add(Kind::bytes, static_cast<int32_t>(program_.ranges.size()), static_cast<int32_t>(ranges.size()));
    program_.ranges.insert(program_.ranges.end(), ranges.begin(), ranges.end());
    return at;
  }
  int32_t choice(bool greedy, int32_t body, int32_t skip) {
    return greedy ? add(Kind::either, body, skip) : add(Kind::either, skip, body);
  }

  // Whether it can match without a byte.
  static bool is_nullable(const Node& node) {
    switch (node.kind) {
      case Node::Kind::empty:
      case Node::Kind::assertion:
        return true;
      case Node::Kind::runes:
      case Node::Kind::byte:
        return false;
      case Node::Kind::group:
        return is_nullable(*node.parts[0]);
      case Node::Kind::concatenation:
        return std::all_of(node.parts.begin(), node.parts.end(), [](const auto& part) { return is_nullable(*part); });
      case Node::Kind::alternatives:
        return std::any_of(node.parts.begin(), node.parts.end(), [](const auto& part) { return is_nullable(*part); });
      case Node::Kind::repetition:
        return node.least == 0 || is_nullable(*node.parts[0]);
    }
    return true;
  }

  int32_t loop(const Node& body, bool greedy, int32_t next) {
    // One or more times: the choice comes after the body.
    const int32_t again = greedy ? add(Kind::either, 0, next) : add(Kind::either, next, 0);
    const int32_t begin = node(body, again);
    (greedy ? program_.code[again].next : program_.code[again].other) = begin;
    return begin;
  }

  int32_t repetition(const Node& repeated, int32_t next) {
    const Node& body = *repeated.parts[0];
    const bool greedy = repeated.greedy;
    int32_t at = next;
    int copies = repeated.least;
    if (repeated.most < 0) {
      if (repeated.least == 0) {
        if (is_nullable(body)) return choice(greedy, loop(body, greedy, next), next);
        const int32_t again = greedy ? add(Kind::either, 0, next) : add(Kind::either, next, 0);
        const int32_t begin = node(body, again);
        (greedy ? program_.code[again].next : program_.code[again].other) = begin;
        return again;
      }
      at = loop(body, greedy, at);
      --copies;
    } else {
      // (x(x(x)?)?)?
      for (int i = repeated.least; i < repeated.most; ++i) at = choice(greedy, node(body, at), next);
    }
    for (int i = 0; i < copies; ++i) at = node(body, at);
    return at;
  }

  // Characters become sequences of ranges of bytes, in order, and those a tree with ends in common.
  struct Sequence {
    uint8_t low[4], high[4];
    int length;
  };

  int32_t runes(const RuneSet& set, int32_t next) {
    sequences_.clear();
    made_.clear();
    for (const auto& [first, last] : set.ranges()) add_range(first, last);
    return tree(0, sequences_.size(), 0, next);
  }

  // The instruction for the bytes at `depth` of some sequences, whose bytes before are the same.
  int32_t tree(size_t begin, size_t end, int depth, int32_t next) {
    std::vector<ByteRange> ranges;
    for (size_t i = begin; i < end;) {
      const Sequence& first = sequences_[i];
      size_t j = i;
      while (j < end && sequences_[j].low[depth] == first.low[depth] && sequences_[j].high[depth] == first.high[depth])
        ++j;
      const int32_t to = first.length == depth + 1 ? next : tree(i, j, depth + 1, next);
      ranges.push_back({first.low[depth], first.high[depth], to});
      i = j;
    }
    std::string key;
    for (const auto& [low, high, to] : ranges) {
      key += static_cast<char>(low);
      key += static_cast<char>(high);
      key += std::to_string(to);
    }
    auto [found, added] = made_.try_emplace(std::move(key), 0);
    if (added) found->second = bytes(ranges);
    return found->second;
  }

  void add_range(uint32_t first, uint32_t last) {
    // Surrogates are no characters.
    if (first < 0xd800 && last > 0xdfff) {
      add_range(first, 0xd7ff);
      return add_range(0xe000, last);
    }
    if (first >= 0xd800 && first <= 0xdfff) first = 0xe000;
    if (last >= 0xd800 && last <= 0xdfff) last = 0xd7ff;
    if (first > last) return;
    // Parts of the same length.
    for (const uint32_t limit : {0x7fu, 0x7ffu, 0xffffu}) {
      if (first <= limit && last > limit) {
        add_range(first, limit);
        return add_range(limit + 1, last);
      }
    }
    // Parts in which each byte takes all its values, or only the last one does.
    if (first >= 0x80) {
      for (int i = 1; i < 4; ++i) {
        const uint32_t mask = (1u << (6 * i)) - 1;
        if ((first & ~mask) == (last & ~mask)) break;
        if ((first & mask) != 0) {
          add_range(first, first | mask);
          return add_range((first | mask) + 1, last);
        }
        if ((last & mask) != mask) {
          add_range(first, (last & ~mask) - 1);
          return add_range(last & ~mask, last);
        }
      }
    }
    Sequence sequence;
    sequence.length = encode(first, sequence.low);
    encode(last, sequence.high);
    sequences_.push_back(sequence);
  }

  Program& program_;
  std::vector<Sequence> sequences_;
  std::map<std::string, int32_t> made_;  // instructions by their ranges
};

void number_classes(Program& program) {
  std::bitset<257> begins;  // where a new class begins
  begins[0] = true;
  bool words = false, lines = false;
  for (const Instruction& each : program.code) {
    if (each.kind != Kind::assertion) continue;
    words |= (each.assertion & (kWordBoundary | kNoWordBoundary)) != 0;
    lines |= (each.assertion & (kBeginLine | kEndLine)) != 0;
  }
  for (const ByteRange& range : program.ranges) begins[range.low] = begins[range.high + 1] = true;
  for (int b = 1; b < 256; ++b) {
    if (words && is_word_byte(b) != is_word_byte(b - 1)) begins[b] = true;
    if (lines && (b == '\n' || b - 1 == '\n')) begins[b] = true;
  }
  for (int b = 0; b < 256; ++b) {
    if (begins[b]) ++program.classes;
    program.class_of[b] = static_cast<uint8_t>(program.classes - 1);
  }
}

void find_first(Program& program) {
  std::vector<bool> seen(program.code.size());
  std::vector<int32_t> stack{program.start};
  while (!stack.empty()) {
    const int32_t at = stack.back();
    stack.pop_back();
    if (seen[at]) continue;
    seen[at] = true;
    const Instruction& each = program.code[at];
    if (each.kind == Kind::match) return;
    if (each.kind == Kind::bytes) {
      for (int i = each.next; i < each.next + each.other; ++i)
        for (int b = program.ranges[i].low; b <= program.ranges[i].high; ++b) program.first[b] = true;
      continue;
    }
    stack.push_back(each.next);
    if (each.kind == Kind::either) stack.push_back(each.other);
  }
  program.knows_first = true;
}

}  // namespace

Program compile(const Parsed& parsed) {
  Program program;
  program.groups = parsed.groups;
  Compiler compiler(program);
  const int32_t match = compiler.add(Kind::match, 0);
  const int32_t end = compiler.add(Kind::capture, match, 1);
  const int32_t body = compiler.node(*parsed.root, end);
  program.start = compiler.add(Kind::capture, body, 0);
  number_classes(program);
  find_first(program);
  return program;
}

}  // namespace thalweg::regex
