// Making states, and following them.
#include "regex/automaton.h"

#include <algorithm>

namespace thalweg::regex {
namespace {

constexpr size_t kMostHeld = size_t{1} << 20;
constexpr size_t kPollBytes = size_t{1} << 16;

}  // namespace

Automaton::Automaton(const Program& program) : program_(program), marks_(program.code.size()) {
  has_assertions_ = std::any_of(program.code.begin(), program.code.end(),
                                [](const Instruction& each) { return each.kind == Instruction::Kind::assertion; });
  forget();
}

void Automaton::forget() {
  known_.clear();
  states_.clear();
  held_ = 0;
  state({false, other, {}}, false);  // kDead
}

Automaton::Before Automaton::before_at(std::string_view text, size_t at) const {
  if (!has_assertions_) return other;
  if (at == 0) return none;
  const auto byte = static_cast<unsigned char>(text[at - 1]);
  return byte == '\n' ? newline : is_word_byte(byte) ? word : other;
}

int32_t Automaton::state(Key key, bool matched) {
  auto [found, added] = known_.try_emplace({std::move(key), matched}, static_cast<int32_t>(states_.size()));
  if (added) {
    states_.push_back({&found->first.first, matched, std::vector<int32_t>(program_.classes + 1, -1)});
    held_ += found->first.first.instructions.size() + static_cast<size_t>(program_.classes) + 16;
  }
  return found->second;
}

// The instructions for a byte, or the match, that can be reached from one where these assertions hold.
void Automaton::follow(int32_t from, uint8_t holds) {
  stack_.push_back(from);
  while (!stack_.empty()) {
    const int32_t at = stack_.back();
    stack_.pop_back();
    if (marks_[at] == mark_) continue;
    marks_[at] = mark_;
    const Instruction& each = program_.code[at];
    switch (each.kind) {
      case Instruction::Kind::bytes:
        reached_.push_back(at);
        break;
      case Instruction::Kind::match:
        found_ = true;
        break;
      case Instruction::Kind::assertion:
        if ((each.assertion & ~holds) == 0) stack_.push_back(each.next);
        break;
      case Instruction::Kind::either:
        stack_.push_back(each.other);
        [[fallthrough]];
      case Instruction::Kind::capture:
        stack_.push_back(each.next);
        break;
    }
  }
}

// `byte` < 0: the end of the text. The state after it is matched if a match ends here.
int32_t Automaton::step(int32_t from, int byte) {
  const Key& key = *states_[from].key;
  const bool anywhere = key.anywhere;
  static constexpr int kExamples[] = {-1, '\n', 'a', ' '};
  const uint8_t holds = holds_between(kExamples[key.before], byte);
  ++mark_;
  reached_.clear();
  found_ = false;
  for (int32_t at : key.instructions) follow(at, holds);
  if (!anywhere && byte >= 0) found_ = false;  // Only a match at the end counts.
  Key next{anywhere, other, {}};
  if (byte >= 0) {
    for (int32_t at : reached_) {
      const int32_t to = program_.after(program_.code[at], byte);
      if (to >= 0) next.instructions.push_back(to);
    }
    if (anywhere) next.instructions.push_back(program_.start);
    if (has_assertions_) next.before = byte == '\n' ? newline : is_word_byte(byte) ? word : other;
    std::sort(next.instructions.begin(), next.instructions.end());
    next.instructions.erase(std::unique(next.instructions.begin(), next.instructions.end()), next.instructions.end());
  }
  if (next.instructions.empty() && !found_) return kDead;
  if (held_ <= kMostHeld) return state(std::move(next), found_);
  // `from` is gone then, too; the caller makes no use of it any more.
  forget();
  return state(std::move(next), found_);
}

bool Automaton::search(std::string_view text, size_t from, bool anywhere, const std::function<void()>& poll) {
  int32_t at = state({anywhere, before_at(text, from), {program_.start}}, false);
  for (size_t i = from;; ++i) {
    const bool ends = i == text.size();
    const int byte = ends ? -1 : static_cast<unsigned char>(text[i]);
    const size_t entry = ends ? static_cast<size_t>(program_.classes) : program_.class_of[byte];
    int32_t next = states_[at].next[entry];
    if (next < 0) {
      const size_t before = states_.size();
      next = step(at, byte);
      if (states_.size() >= before) states_[at].next[entry] = next;  // else they have been dropped
    }
    if (ends) return states_[next].matched;
    if (anywhere && states_[next].matched) return true;
    if (next == kDead) return false;
    at = next;
    if (poll && i % kPollBytes == kPollBytes - 1) poll();
  }
}

}  // namespace thalweg::regex
