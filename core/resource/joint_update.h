// JointUpdate: one change of several variables under all their locks, as an optimizer changes a weight and its slots.
//
// The constructor locks the variables in the order of their addresses, so that updates that share variables never wait
// for each other in a circle; it refuses a variable that is given twice or has no value. `prepare` then says where the
// new values go: into the old tensors where the variable holds the only reference, else into new ones. Check everything
// before writing: if the change throws before `commit`, values that were shared stay as they were. The locks go with
// the object.
#pragma once

#include <array>
#include <mutex>
#include <span>

#include "resource/variable.h"

namespace thalweg {

class JointUpdate {
 public:
  static constexpr size_t kMost = 4;

  explicit JointUpdate(std::span<Variable* const> variables) : count_(variables.size()) {
    require(count_ <= kMost, "an update of ", count_, " variables at once");
    std::array<Variable*, kMost> ordered{};
    for (size_t i = 0; i < count_; ++i) ordered[i] = variables_[i] = variables[i];
    std::sort(ordered.begin(), ordered.begin() + count_);
    for (size_t i = 0; i < count_; ++i) {
      require(i == 0 || ordered[i] != ordered[i - 1], "variable '", ordered[i]->name(),
              "' is given twice, as the variable and as a slot or as two slots");
      locks_[i] = std::unique_lock(ordered[i]->mutex_);
    }
    for (size_t i = 0; i < count_; ++i) variables_[i]->require_value();
  }

  const Tensor& old_value(size_t i) const { return variables_[i]->value_; }
  // With `keep`, the new values start as copies of the old ones; else every element must be written.
  void prepare(bool keep) {
    for (size_t i = 0; i < count_; ++i) {
      const Tensor& old = variables_[i]->value_;
      if (old.writable())
        old.buffer()->changed();
      else
        fresh_[i] = keep ? old.clone() : Tensor(old.dtype(), old.shape());
    }
  }
  Tensor& new_value(size_t i) { return fresh_[i].defined() ? fresh_[i] : variables_[i]->value_; }
  void commit() {
    for (size_t i = 0; i < count_; ++i)
      if (fresh_[i].defined()) std::swap(variables_[i]->value_, fresh_[i]);
  }

 private:
  const size_t count_;
  std::array<Variable*, kMost> variables_{};
  // Before the locks: old values are given back after the locks are.
  std::array<Tensor, kMost> fresh_;
  std::array<std::unique_lock<std::mutex>, kMost> locks_;
};

}  // namespace thalweg
