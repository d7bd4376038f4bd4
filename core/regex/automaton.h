// Automaton: a deterministic automaton for a program, whose states are made when a text first needs them.
//
// A state is the set of instructions that may come next, before the byte that follows is known: assertions are looked
// at when it is. When there are too many states all are dropped, and the search goes on from the present one: so memory
// is bounded, and the time for a byte is at most that for all instructions.
#pragma once

#include <functional>
#include <map>
#include <string_view>
#include <vector>

#include "regex/program.h"

namespace thalweg::regex {

class Automaton {
 public:
  explicit Automaton(const Program& program);

  // Whether the whole text matches; if `anywhere`, whether a part of it does that begins at `from` or later.
  bool search(std::string_view text, size_t from, bool anywhere, const std::function<void()>& poll);

 private:
  // The byte before, as far as assertions can tell.
  enum Before : uint8_t { none, newline, word, other };
  struct Key {
    bool anywhere;
    Before before;
    std::vector<int32_t> instructions;
    auto operator<=>(const Key&) const = default;
  };
  struct State {
    const Key* key;
    bool matched;               // a match has ended before
    std::vector<int32_t> next;  // by class of byte, the end of the text last; -1: not made yet
  };
  static constexpr int32_t kDead = 0;

  Before before_at(std::string_view text, size_t at) const;
  int32_t state(Key key, bool matched);
  int32_t step(int32_t from, int byte);
  void follow(int32_t at, uint8_t holds);
  void forget();

  const Program& program_;
  bool has_assertions_ = false;
  std::map<std::pair<Key, bool>, int32_t> known_;
  std::vector<State> states_;
  size_t held_ = 0;  // instructions in all keys, and entries of all tables
  // For a step.
  std::vector<int32_t> stack_, reached_;
  std::vector<uint32_t> marks_;
  uint32_t mark_ = 0;
  bool found_ = false;
};

}  // namespace thalweg::regex
