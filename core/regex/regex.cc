// Matching and replacing.
#include "regex/regex.h"

#include <algorithm>

#include "error.h"
#include "regex/search.h"

namespace thalweg::regex {
namespace {

Program compiled(std::string_view pattern) {
  try {
    return compile(parse(pattern));
  } catch (const std::string& what) {
    fail(Code::invalid_argument, "Invalid pattern: ", std::string(pattern), ", error: ", what);
  }
}

// The highest group of a rewrite.
int highest_group(std::string_view rewrite) {
  int highest = 0;
  for (size_t i = 0; i + 1 < rewrite.size(); ++i) {
    if (rewrite[i] != '\\') continue;
    ++i;
    if (rewrite[i] >= '0' && rewrite[i] <= '9') highest = std::max(highest, rewrite[i] - '0');
  }
  return highest;
}

// Appends the rewrite of a match; false at an escape that is none.
bool append(std::string& out, std::string_view rewrite, std::string_view text, const std::vector<int64_t>& places) {
  for (size_t i = 0; i < rewrite.size(); ++i) {
    if (rewrite[i] != '\\') {
      out += rewrite[i];
      continue;
    }
    const char escaped = ++i < rewrite.size() ? rewrite[i] : '\0';
    if (escaped >= '0' && escaped <= '9') {
      const size_t group = static_cast<size_t>(escaped - '0');
      const int64_t begin = places[2 * group], end = places[2 * group + 1];
      if (begin >= 0 && end >= begin) out += text.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    } else if (escaped == '\\') {
      out += '\\';
    } else {
      return false;
    }
  }
  return true;
}

// The bytes of the character at a place of the text; 1 if there is no valid one.
size_t character_at(std::string_view text, size_t at) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char lead = byte(0);
  const size_t length = lead < 0xc2 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 1;
  if (at + length > text.size()) return 1;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 1;
  if ((lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) > 0x8f))
    return 1;
  return length;
}

}  // namespace

// An automaton for one search at a time.
class Regex::Borrowed {
 public:
  explicit Borrowed(const Regex& regex) : regex_(regex) {
    {
      std::lock_guard lock(regex_.mutex_);
      if (!regex_.idle_.empty()) {
        automaton_ = std::move(regex_.idle_.back());
        regex_.idle_.pop_back();
      }
    }
    if (!automaton_) automaton_ = std::make_unique<Automaton>(regex_.program_);
  }
  ~Borrowed() {
    std::lock_guard lock(regex_.mutex_);
    try {
      regex_.idle_.push_back(std::move(automaton_));
    } catch (const std::bad_alloc&) {
      // Another one is made when it is needed.
    }
  }
  Borrowed(const Borrowed&) = delete;
  Automaton* operator->() const { return automaton_.get(); }

 private:
  const Regex& regex_;
  std::unique_ptr<Automaton> automaton_;
};

Regex::Regex(std::string_view pattern) : program_(compiled(pattern)) {}

bool Regex::matches_all_of(std::string_view text, const Poll& poll) const {
  return Borrowed(*this)->search(text, 0, false, poll);
}

std::string Regex::replaced(std::string_view text, std::string_view rewrite, bool all, const Poll& poll) const {
  const int highest = highest_group(rewrite);
  if (highest > groups()) return std::string(text);
  std::string out;
  std::vector<int64_t> places(2 * (static_cast<size_t>(highest) + 1));
  const Borrowed automaton(*this);
  Search search(program_, places.size());
  size_t at = 0;
  int64_t last_end = -1;
  bool any = false;
  while (at <= text.size() && automaton->search(text, at, true, poll) && search.find(text, at, places, poll)) {
    const auto begin = static_cast<size_t>(places[0]), end = static_cast<size_t>(places[1]);
    out += text.substr(at, begin - at);
    if (places[0] == last_end && begin == end) {
      // No empty match directly behind another match: goes on with the next character.
      if (begin == text.size()) {
        at = begin;
        break;
      }
      const size_t length = character_at(text, begin);
      out += text.substr(begin, length);
      at = begin + length;
      continue;
    }
    const bool good = append(out, rewrite, text, places);
    if (!all) return good ? out + std::string(text.substr(end)) : std::string(text);
    any = true;
    at = end;
    last_end = places[1];
  }
  if (!any) return std::string(text);
  if (at < text.size()) out += text.substr(at);
  return out;
}

}  // namespace thalweg::regex
