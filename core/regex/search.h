// Search: where the first match of a program is, and its groups.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "regex/program.h"

namespace thalweg::regex {

// For one thread. Keeps its memory from one search to the next.
class Search {
 public:
  // `places`: how many begins and ends to find, two for the match and for each group.
  Search(const Program& program, size_t places);
  ~Search();
  // The leftmost match that begins at `from` or later; of those that begin there, the one of the preferred
  // alternatives. `places` gets begins and ends, -1 for groups that take no part in the match.
  bool find(std::string_view text, size_t from, std::vector<int64_t>& places, const std::function<void()>& poll);

 private:
  class Machine;
  std::unique_ptr<Machine> machine_;
};

}  // namespace thalweg::regex
