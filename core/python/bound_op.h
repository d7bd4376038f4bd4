// BoundOp: a native op that Python calls with eager tensors. Needs the lock of the interpreter, which calls on large
// values give away while they run.
#pragma once

#include <nanobind/nanobind.h>

#include "eager/eager_op.h"

namespace thalweg {

class BoundOp {
 public:
  BoundOp(nanobind::object session, const std::string& name, const std::string& op, const std::string& device,
          nanobind::dict attrs, nanobind::sequence input_dtypes, nanobind::sequence output_dtypes);

  // Runs it on a sequence of eager tensors: the output, or a list if there is not exactly one.
  nanobind::object run(nanobind::handle given) const;
  nanobind::object run_on(PyObject* const* given, Py_ssize_t count) const;

  const std::string& type() const { return op_.def().op; }
  // How many ops this thread has begun.
  static uint64_t runs_of_thread();

 private:
  int64_t take(PyObject* const* given, Py_ssize_t count, Tensor* inputs) const;

  std::shared_ptr<void> owner_;  // the session, whose devices the op uses
  EagerOp op_;
};

void bind_bound_op(nanobind::module_& m);

}  // namespace thalweg
