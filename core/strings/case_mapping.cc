// Upper and lower case of UTF-8 text: decodes it, maps letters by tables, and encodes it again.
#include "strings/case_mapping.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

namespace thalweg {
namespace {

struct Run {
  uint32_t first, last;
  int step, distance;
};
struct Expansion {
  uint32_t letter, to[3];
};
struct Range {
  uint32_t first, last;
};
#include "strings/case_tables.inc"

constexpr uint32_t kReplacement = 0xfffd, kSigma = 0x3a3, kSmallSigma = 0x3c3, kFinalSigma = 0x3c2;

// The entry of a table sorted by its first member whose first member is at most `c`, or null.
template <typename Entry, size_t n, typename Key>
const Entry* at_most(const Entry (&table)[n], uint32_t c, const Key& key) {
  auto after = std::upper_bound(std::begin(table), std::end(table), c,
                                [&](uint32_t value, const Entry& entry) { return value < key(entry); });
  return after == std::begin(table) ? nullptr : after - 1;
}

template <size_t n>
bool is_in(const Range (&table)[n], uint32_t c) {
  const Range* found = at_most(table, c, [](const Range& r) { return r.first; });
  return found && c <= found->last;
}

template <size_t n>
uint32_t mapped(const Run (&runs)[n], uint32_t c) {
  const Run* run = at_most(runs, c, [](const Run& r) { return r.first; });
  if (!run || c > run->last || (c - run->first) % static_cast<uint32_t>(run->step) != 0) return c;
  return c + static_cast<uint32_t>(run->distance);
}

// Each malformed part, as long as it may begin a character, becomes one replacement character.
std::vector<uint32_t> decoded(std::string_view text) {
  std::vector<uint32_t> result;
  result.reserve(text.size());
  auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  for (size_t i = 0; i < text.size();) {
    const uint32_t lead = byte(i);
    if (lead < 0x80) {
      result.push_back(lead);
      ++i;
      continue;
    }
    const int more = lead >= 0xc2 && lead < 0xe0   ? 1
                     : lead >= 0xe0 && lead < 0xf0 ? 2
                     : lead >= 0xf0 && lead < 0xf5 ? 3
                                                   : 0;
    // What the second byte may be: neither too long a form, nor a surrogate, nor beyond the last character.
    const uint32_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const uint32_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    uint32_t c = lead & (0x3f >> more);
    int read = 0;
    while (read < more) {
      const uint32_t next = byte(i + read + 1);
      if (read == 0 ? next < low || next > high : (next & 0xc0) != 0x80) break;
      c = c << 6 | (next & 0x3f);
      ++read;
    }
    result.push_back(more > 0 && read == more ? c : kReplacement);
    i += 1 + static_cast<size_t>(read);
  }
  return result;
}

void append(std::string& out, uint32_t c) {
  if (c < 0x80) {
    out.push_back(static_cast<char>(c));
    return;
  }
  const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  static constexpr unsigned char kLeads[] = {0, 0xc0, 0xe0, 0xf0};
  out.push_back(static_cast<char>(kLeads[more] | c >> (6 * more)));
  for (int i = more - 1; i >= 0; --i) out.push_back(static_cast<char>(0x80 | (c >> (6 * i) & 0x3f)));
}

// Whether the sigma at i ends a word: a letter comes before it, and none after it.
bool ends_word(const std::vector<uint32_t>& text, size_t i) {
  size_t before = i;
  while (before > 0 && is_in(kIgnorable, text[before - 1])) --before;
  if (before == 0 || !is_in(kCased, text[before - 1])) return false;
  size_t after = i + 1;
  while (after < text.size() && is_in(kIgnorable, text[after])) ++after;
  return after == text.size() || !is_in(kCased, text[after]);
}

}  // namespace

std::string changed_case(std::string_view text, bool upper) {
  const std::vector<uint32_t> letters = decoded(text);
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < letters.size(); ++i) {
    const uint32_t c = letters[i];
    if (c < 0x80) {
      const bool changes = c - (upper ? 'a' : 'A') < 26;
      append(out, c ^ (changes ? 0x20u : 0u));
      continue;
    }
    if (!upper && c == kSigma) {
      append(out, ends_word(letters, i) ? kFinalSigma : kSmallSigma);
      continue;
    }
    auto expand = [&](const auto& table) {
      const Expansion* found = at_most(table, c, [](const Expansion& e) { return e.letter; });
      if (!found || found->letter != c) return false;
      for (uint32_t part : found->to)
        if (part != 0) append(out, part);
      return true;
    };
    if (upper ? expand(kUpperExpansions) : expand(kLowerExpansions)) continue;
    append(out, upper ? mapped(kUpperRuns, c) : mapped(kLowerRuns, c));
  }
  return out;
}

}  // namespace thalweg
