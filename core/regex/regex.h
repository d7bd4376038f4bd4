// Regex: regular expressions in the time of pattern times text, whatever the pattern.
//
// The syntax, and which of several matches is found (the leftmost, and of those the one that a backtracking search
// would try first), are RE2's. Two machines follow all alternatives at once: one that builds the states of a
// deterministic automaton as they are met says whether there is a match, another one where its groups are.
//
// A Regex is immutable, and any number of threads may use it at once.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "regex/automaton.h"
#include "regex/program.h"

namespace thalweg::regex {

class Regex {
 public:
  // Throws InvalidArgument for a pattern that RE2 would refuse.
  explicit Regex(std::string_view pattern);

  int groups() const { return program_.groups; }
  // Called now and then during long searches; may throw to end one.
  using Poll = std::function<void()>;
  bool matches_all_of(std::string_view text, const Poll& poll = {}) const;
  // Replaces the first match, or all of them. In the rewrite, \0 is the match, \1 to \9 are its groups, and \\ is a
  // backslash. A rewrite with groups that the pattern lacks replaces nothing.
  std::string replaced(std::string_view text, std::string_view rewrite, bool all, const Poll& poll = {}) const;

 private:
  class Borrowed;

  Program program_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Automaton>> idle_;  // those that no search uses now
};

}  // namespace thalweg::regex
