// Tape: what a gradient tape of Python keeps of the ops that run, and the backward walk over it.
//
// Tensors are known by their serial numbers, so an entry need not keep a tensor to know it again. Of a call whose
// gradient is a known program (gradient_program.h) it keeps the tensors that this uses, and no others; of any other
// op all of them, for the gradient function of Python.
//
// Everything is under the lock of the interpreter. Threads may share a tape: a walk takes the entries out first, and
// those that are recorded meanwhile belong to the next one.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <memory>
#include <unordered_set>
#include <vector>

#include "python/gradient_program.h"
#include "python/known_calls.h"

namespace thalweg {

class Tape {
 public:
  explicit Tape(bool watches_variables) : watches_variables_(watches_variables) {}

  // Records an op if it depends on what is watched. `call` is null for an op that no key tells: then `op_def` and
  // `attrs` say what it is.
  void record(const std::shared_ptr<Call>& call, nanobind::handle op_def, nanobind::handle attrs,
              PyObject* const* inputs, Py_ssize_t count, nanobind::handle outputs);
  // Records a call of a function with a gradient of its own.
  void record_call(nanobind::sequence inputs, nanobind::sequence outputs, nanobind::object backward);
  void watch(nanobind::handle tensor) { watched_.insert(serial_of(tensor.ptr())); }
  void watch_variable(nanobind::handle variable, nanobind::handle handle);
  void clear();

  // The gradients of `sources`: None where no target depends on one, or the marker of zeros. `seeds`: the gradients of
  // the targets, None to leave one out. `keep`: whether the entries stay; if not, each goes when the walk has passed.
  nanobind::list gradients(nanobind::sequence targets, nanobind::sequence seeds, nanobind::sequence sources, bool keep);
  // The variables that have been watched, by id.
  nanobind::dict variables() const { return variables_; }
  size_t size() const { return entries_.size(); }
  // How many tensors the entries keep.
  size_t num_kept() const;

  int traverse(visitproc visit, void* arg) const;

 private:
  struct Entry {
    std::shared_ptr<Call> call;  // null: see the next two
    nanobind::object op_def, attrs;
    nanobind::object backward;  // of a recorded call
    std::shared_ptr<GradientVariant> variant;
    size_t num_inputs = 0;
    std::vector<nanobind::object> tensors;  // inputs, then outputs; invalid where not kept
    std::vector<uint64_t> serials;
    std::vector<bool> differentiable;
    // Whether it has kept all tensors.
    bool is_whole() const {
      return std::ranges::all_of(tensors, [](const auto& tensor) { return tensor.is_valid(); });
    }
  };
  using EntryRef = std::shared_ptr<Entry>;
  class Walk;

  static void trace_at_once(const Entry& entry);
  bool depends_on_watched(PyObject* const* inputs, Py_ssize_t count);
  void add(const EntryRef& entry);
  static std::vector<nanobind::object> input_gradients(const Entry& entry, std::vector<nanobind::object> grads);
  static nanobind::object call_function(const Entry& entry, const std::vector<nanobind::object>& grads);
  static nanobind::object trace(const Entry& entry, uint64_t present, const std::vector<nanobind::object>& grads);

  bool watches_variables_;
  std::vector<EntryRef> entries_;
  std::unordered_set<uint64_t> watched_;
  nanobind::dict variables_;
};

// Shows a call that has run to the open tapes.
void show(PyObject* recorders, const std::shared_ptr<Call>& call, PyObject* const* inputs, Py_ssize_t count,
          nanobind::handle outputs);
// Python's marker for a gradient that is zero.
nanobind::object zero_gradient();

void bind_gradient_tape(nanobind::module_& m);

}  // namespace thalweg
