// Sets of characters: their ranges, case folding, and the properties of Unicode.
#include <algorithm>
#include <map>

#include "regex/syntax.h"

namespace thalweg::regex {
namespace {

struct Property {
  const char* name;
  int first, count;  // of its ranges
};

struct Fold {
  uint32_t first, last;
  int stride, delta;
};

#include "regex/unicode_tables.inc"

// The next character in the cycle of those that differ in case only; itself if there is no other.
uint32_t next_folded(uint32_t rune, const Fold* from) {
  for (const Fold* fold = from; fold != std::end(kFolds) && fold->first <= rune; ++fold)
    if (rune <= fold->last && (rune - fold->first) % fold->stride == 0) return rune + fold->delta;
  return rune;
}

std::map<std::string, RuneSet, std::less<>> make_properties() {
  std::map<std::string, RuneSet, std::less<>> all;
  for (const Property& property : kProperties) {
    const std::string name = property.name;
    for (int i = property.first; i < property.first + property.count; ++i) {
      all[name].add(kRanges[i][0], kRanges[i][1]);
      // The first letter of a category is the one that it belongs to.
      if (name.size() == 2) all[name.substr(0, 1)].add(kRanges[i][0], kRanges[i][1]);
    }
  }
  all["Any"].add(0, kLastRune);
  for (auto& [name, set] : all) set.normalize();
  return all;
}

}  // namespace

const RuneSet* property_named(std::string_view name) {
  static const auto* properties = new std::map<std::string, RuneSet, std::less<>>(make_properties());
  auto found = properties->find(name);
  return found == properties->end() ? nullptr : &found->second;
}

void RuneSet::add_folded(uint32_t first, uint32_t last) {
  add(first, last);
  for (const Fold& fold : kFolds) {
    // The members of this run that lie in the range.
    uint32_t rune = std::max(first, fold.first);
    if (const uint32_t off = (rune - fold.first) % fold.stride; off != 0) rune += fold.stride - off;
    for (; rune <= std::min(last, fold.last); rune += fold.stride)
      for (uint32_t other = rune + fold.delta; other != rune; other = next_folded(other, kFolds)) add(other, other);
  }
}

void RuneSet::normalize() {
  std::sort(ranges_.begin(), ranges_.end());
  std::vector<Range> merged;
  for (const Range& range : ranges_) {
    if (!merged.empty() && range.first <= merged.back().second + 1)
      merged.back().second = std::max(merged.back().second, range.second);
    else
      merged.push_back(range);
  }
  ranges_ = std::move(merged);
}

void RuneSet::negate() {
  normalize();
  std::vector<Range> rest;
  uint32_t next = 0;
  for (const auto& [first, last] : ranges_) {
    if (first > next) rest.emplace_back(next, first - 1);
    next = last + 1;
  }
  if (next <= kLastRune) rest.emplace_back(next, kLastRune);
  ranges_ = std::move(rest);
}

}  // namespace thalweg::regex
