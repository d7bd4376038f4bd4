// Variables: reading and assigning whole values.
#include "resource/variable.h"

namespace thalweg {

void Variable::require_value() const {
  if (value_.defined()) return;
  fail(Code::failed_precondition, "Error while reading resource variable ", name_,
       " from Container: ", container_.empty() ? "localhost" : container_,
       ". This could mean that the variable was uninitialized: Attempting to use uninitialized value ", name_,
       ". Run its initializer first, as with tf.global_variables_initializer()");
}

Tensor Variable::read() {
  std::lock_guard lock(mutex_);
  require_value();
  return value_;
}

void Variable::assign(Tensor value, bool validate) {
  require(value.dtype() == dtype_, "variable '", name_, "' has type ", dtype_, ", cannot assign a value of type ",
          value.dtype());
  if (validate)
    require(shape_.accepts(value.shape()), "variable '", name_, "' has shape ", shape_,
            ", cannot assign a value of shape ", value.shape());
  Tensor next = value.owned();
  std::lock_guard lock(mutex_);
  std::swap(value_, next);  // The old value goes after the lock.
}

void Variable::clear() {
  Tensor gone;
  std::lock_guard lock(mutex_);
  std::swap(value_, gone);
}

}  // namespace thalweg
