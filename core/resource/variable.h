// Variable: a mutable tensor that outlives steps.
//
// Reading hands out a snapshot: the tensor itself, sharing its buffer, taken under the lock. Updates run under the lock
// and are therefore atomic; they write in place when the variable is the only owner of the buffer, and on a copy
// otherwise, so that a snapshot never changes. A stored value is never a borrowed one. The lock is a leaf: nothing that
// runs under it may touch another resource.
#pragma once

#include <mutex>

#include "tensor/resource_handle.h"
#include "tensor/tensor.h"

namespace thalweg {

class Variable : public Resource {
 public:
  Variable(std::string name, std::string container, DType dtype, PartialShape shape)
      : name_(std::move(name)), container_(std::move(container)), dtype_(dtype), shape_(std::move(shape)) {}
  const char* kind() const override { return "a variable"; }
  const std::string& name() const { return name_; }
  DType dtype() const { return dtype_; }

  bool initialized() {
    std::lock_guard lock(mutex_);
    return value_.defined();
  }
  // The current value; FailedPrecondition if there is none yet.
  Tensor read();
  // Replaces the value. With `validate`, one that does not fit the declared shape is refused.
  void assign(Tensor value, bool validate);
  // Forgets the value, as if the variable had never been initialized.
  void clear();

  // Calls change(value) under the lock with a tensor that it may overwrite. `change` must check everything before it
  // writes: if it throws, the value must be as it was. For updates that write only a few elements.
  template <typename Change>
  void update(const Change& change) {
    std::lock_guard lock(mutex_);
    require_value();
    if (value_.writable()) {
      value_.buffer()->changed();
      change(value_);
      return;
    }
    Tensor copy = value_.clone();
    change(copy);
    value_ = std::move(copy);
  }
  // Calls change(out, in) under the lock: every element of `out` is written, from that of `in`. Both are one tensor if
  // the variable holds the only reference. Saves the copy that `update` makes for updates that write all elements.
  template <typename Change>
  void replace(const Shape& shape, const Change& change) {
    std::lock_guard lock(mutex_);
    require_value();
    require(value_.shape() == shape, "variable '", name_, "' has shape ", value_.shape(),
            ", which differs from the shape of the update, ", shape);
    if (value_.writable()) {
      value_.buffer()->changed();
      change(value_, value_);
      return;
    }
    Tensor fresh(dtype_, shape);
    change(fresh, value_);
    value_ = std::move(fresh);
  }

 private:
  friend class JointUpdate;
  void require_value() const;

  const std::string name_;
  const std::string container_;
  const DType dtype_;
  const PartialShape shape_;  // that the handle op declared; an assignment that does not validate may differ
  std::mutex mutex_;          // guards value_
  Tensor value_;
};

}  // namespace thalweg
