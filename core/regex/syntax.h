// The syntax of regular expressions: the tree that a pattern is parsed to.
//
// The syntax is RE2's (https://github.com/google/re2/wiki/Syntax): what TensorFlow's ops accept and refuse. Patterns
// are UTF-8, and characters are Unicode's, except for \C, which is a byte.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace thalweg::regex {

constexpr uint32_t kLastRune = 0x10ffff;

// A set of characters, as ranges; sorted and apart from each other once `normalize` has been called.
class RuneSet {
 public:
  using Range = std::pair<uint32_t, uint32_t>;
  void add(uint32_t first, uint32_t last) { ranges_.emplace_back(first, last); }
  // With all characters that differ from these in case only.
  void add_folded(uint32_t first, uint32_t last);
  void add(const RuneSet& other) { ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end()); }
  void normalize();
  void negate();
  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  std::vector<Range> ranges_;
};

// What has to hold at a place between two characters.
enum Assertion : uint8_t {
  kBeginText = 1,
  kEndText = 2,
  kBeginLine = 4,
  kEndLine = 8,
  kWordBoundary = 16,
  kNoWordBoundary = 32,
};

struct Node {
  enum class Kind : uint8_t { empty, runes, byte, assertion, group, concatenation, alternatives, repetition };
  explicit Node(Kind kind) : kind(kind) {}

  Kind kind;
  bool greedy = true;  // repetition
  uint8_t assertion = 0;
  int group = 0;            // its number, from 1
  int least = 0, most = 0;  // repetition; most < 0: any number
  int64_t copies = 1;       // of its innermost part, when all counts are written out
  RuneSet runes;
  std::vector<std::unique_ptr<Node>> parts;
};

struct Parsed {
  std::unique_ptr<Node> root;
  int groups = 0;  // capturing ones
};

// Throws std::string with RE2's words for what is wrong.
Parsed parse(std::string_view pattern);

// The characters with a Unicode property (a general category or a script), by its name; null if there is none.
const RuneSet* property_named(std::string_view name);

}  // namespace thalweg::regex
