// Following all alternatives at once, in the order of their preference, each with the places of its groups.
#include "regex/search.h"

#include <algorithm>
#include <cstring>

namespace thalweg::regex {
namespace {

using Kind = Instruction::Kind;
constexpr size_t kPollBytes = size_t{1} << 12;

// Instructions in order of preference, each at most once, with their places.
class Threads {
 public:
  Threads(size_t instructions, size_t places) : position_(instructions), places_(places) {}
  bool empty() const { return order_.empty(); }
  size_t size() const { return order_.size(); }
  int32_t at(size_t i) const { return order_[i]; }
  int64_t* places(size_t i) { return values_.data() + i * places_; }
  void clear() { order_.clear(); }
  bool has(int32_t instruction) const {
    const uint32_t i = position_[instruction];
    return i < order_.size() && order_[i] == instruction;
  }
  void add(int32_t instruction, const int64_t* places) {
    position_[instruction] = static_cast<uint32_t>(order_.size());
    order_.push_back(instruction);
    if (values_.size() < order_.size() * places_) values_.resize(2 * order_.size() * places_);
    std::copy_n(places, places_, this->places(order_.size() - 1));
  }

 private:
  std::vector<uint32_t> position_;
  std::vector<int32_t> order_;
  std::vector<int64_t> values_;
  size_t places_;
};

}  // namespace

class Search::Machine {
 public:
  Machine(const Program& program, size_t places)
      : program_(program), now_(program.code.size(), places), next_(program.code.size(), places), places_(places, -1) {}

  bool run(std::string_view text, size_t from, std::vector<int64_t>& found, const std::function<void()>& poll) {
    bool matched = false;
    now_.clear();
    stack_.clear();
    for (size_t i = from;; ++i) {
      if (now_.empty()) {
        if (matched) return true;
        if (program_.knows_first) {
          while (i < text.size() && !program_.first[static_cast<unsigned char>(text[i])]) ++i;
          if (i == text.size()) return false;
        }
      }
      const int before = i == 0 ? -1 : static_cast<unsigned char>(text[i - 1]);
      const int after = i == text.size() ? -1 : static_cast<unsigned char>(text[i]);
      if (!matched) {
        // A match that begins here is less preferred than those that have begun before.
        std::fill(places_.begin(), places_.end(), -1);
        follow(now_, program_.start, i, holds_between(before, after));
      }
      const int beyond = i + 1 >= text.size() ? -1 : static_cast<unsigned char>(text[i + 1]);
      const uint8_t holds = after < 0 ? 0 : holds_between(after, beyond);
      next_.clear();
      for (size_t t = 0; t < now_.size(); ++t) {
        const Instruction& each = program_.code[now_.at(t)];
        if (each.kind == Kind::match) {
          std::copy_n(now_.places(t), found.size(), found.begin());
          matched = true;
          break;  // The others are less preferred.
        }
        if (each.kind != Kind::bytes || after < 0) continue;
        const int32_t to = program_.after(each, after);
        if (to < 0) continue;
        std::copy_n(now_.places(t), places_.size(), places_.begin());
        follow(next_, to, i + 1, holds);
      }
      std::swap(now_, next_);
      if (after < 0) return matched;
      if (poll && i % kPollBytes == kPollBytes - 1) poll();
    }
  }

 private:
  struct Step {
    int32_t instruction;  // < 0: restores a place
    int32_t place = 0;
    int64_t value = 0;
  };

  // Adds the instructions for bytes, and the match, that can be reached, in order of preference.
  void follow(Threads& threads, int32_t from, size_t position, uint8_t holds) {
    stack_.push_back({from});
    while (!stack_.empty()) {
      const Step step = stack_.back();
      stack_.pop_back();
      if (step.instruction < 0) {
        places_[step.place] = step.value;
        continue;
      }
      for (int32_t at = step.instruction; !threads.has(at);) {
        const Instruction& each = program_.code[at];
        threads.add(at, places_.data());
        if (each.kind == Kind::bytes || each.kind == Kind::match) break;
        if (each.kind == Kind::assertion && (each.assertion & ~holds) != 0) break;
        if (each.kind == Kind::either) stack_.push_back({each.other});
        if (each.kind == Kind::capture && static_cast<size_t>(each.other) < places_.size()) {
          stack_.push_back({-1, each.other, places_[each.other]});
          places_[each.other] = static_cast<int64_t>(position);
        }
        at = each.next;
      }
    }
  }

  const Program& program_;
  Threads now_, next_;
  std::vector<int64_t> places_;
  std::vector<Step> stack_;
};

Search::Search(const Program& program, size_t places) : machine_(std::make_unique<Machine>(program, places)) {}
Search::~Search() = default;

bool Search::find(std::string_view text, size_t from, std::vector<int64_t>& places, const std::function<void()>& poll) {
  return machine_->run(text, from, places, poll);
}

}  // namespace thalweg::regex
