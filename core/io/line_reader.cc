// Reading lines: in the buffer where it holds the line's end, else piece by piece.
#include "io/line_reader.h"

#include <cstring>

namespace thalweg {
namespace {

size_t find_end(std::string_view text) {
  const void* end = std::memchr(text.data(), '\n', text.size());
  return end == nullptr ? text.size() : static_cast<size_t>(static_cast<const char*>(end) - text.data());
}

}  // namespace

bool LineReader::next(std::string_view& line) {
  std::string_view there = input_.available();
  size_t end = find_end(there);
  if (end < there.size()) [[likely]] {
    line = there.substr(0, end);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    input_.advance(end + 1);
    return true;
  }
  if (!next_in_pieces(large_)) return false;
  line = large_;
  return true;
}

bool LineReader::next(std::string& line) {
  std::string_view view;
  if (!next(view)) return false;
  line.assign(view);
  return true;
}

bool LineReader::next_in_pieces(std::string& line) {
  line.clear();
  for (;;) {
    std::string_view there = input_.available();
    if (there.empty()) return !line.empty();
    size_t end = find_end(there);
    line.append(there.substr(0, end));
    bool ended = end < there.size();
    input_.advance(ended ? end + 1 : end);
    if (ended) {
      if (!line.empty() && line.back() == '\r') line.pop_back();
      return true;
    }
  }
}

}  // namespace thalweg
