// CallKey: what tells calls of eager ops apart: the op type, the types of the tensors among the arguments, and all
// other arguments and attributes by type and bits. Python's equality takes 0.0 for -0.0 and True for 1.
//
// The name of an operator (`__matmul__`) stands for several ops: there the ranks of the tensors count, too.
//
// Objects that are told by their address (op types, names of attributes, element types) must be kept by whoever keeps
// the key: `named` has them. Needs the lock of the interpreter.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <string_view>
#include <vector>

namespace thalweg {

// The types of Python objects that keys know.
struct KeyTypes {
  std::vector<PyObject*> exact;  // of objects that are told by their address, beside Python's own types; kept for good
  nanobind::object array, scalar;  // of NumPy's arrays, of which small ones are told by their elements, and numbers
  nanobind::object variable;       // of variables
  nanobind::object dtype;          // the name of the attribute with a variable's element type
};

class CallKey {
 public:
  CallKey(PyObject* op_type, PyObject* inputs, PyObject* attrs, const KeyTypes& types);
  CallKey(const CallKey&) = delete;

  // Whether the call can be told by a key: not if it has large arrays, or very many arguments, or tensors in its
  // attributes.
  bool ok() const { return ok_; }
  std::string_view bytes() const {
    return {reinterpret_cast<const char*>(words_.data()), static_cast<size_t>(size_) * sizeof(uint64_t)};
  }
  // The eager tensors and the variables among the inputs, lists flattened. Borrowed.
  PyObject* const* tensors() const { return tensors_.data(); }
  Py_ssize_t num_tensors() const { return num_tensors_; }
  bool has_variables() const { return variables_ != 0; }
  // Whether a list is among the inputs, which may change while the call runs.
  bool has_lists() const { return has_lists_; }
  bool is_variable(Py_ssize_t tensor) const { return (variables_ >> tensor & 1) != 0; }
  PyObject* const* named() const { return named_.data(); }
  size_t num_named() const { return num_named_; }

 private:
  bool add(uint64_t word);
  bool add_object(uint64_t kind, PyObject* object);
  bool add_text(uint64_t kind, const char* text, Py_ssize_t size);
  bool add_number(PyObject* number);
  bool add_elements(uint64_t kind, PyObject* sequence, int depth);
  bool add_slice(PyObject* slice, int depth);
  bool add_array(PyObject* array);
  bool add_value(PyObject* value, int depth);
  bool add_variable(PyObject* variable);
  bool add_attrs(PyObject* attrs);

  static constexpr size_t kMostWords = 96, kMostTensors = 32, kMostNamed = 40;
  const KeyTypes& types_;
  bool ok_ = false;
  bool with_tensors_ = true, with_ranks_ = false, has_lists_ = false;
  uint32_t size_ = 0, num_tensors_ = 0, num_named_ = 0, variables_ = 0;
  std::array<uint64_t, kMostWords> words_;
  std::array<PyObject*, kMostTensors> tensors_;
  std::array<PyObject*, kMostNamed> named_;
};

}  // namespace thalweg
