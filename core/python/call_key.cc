// Encoding the arguments of a call.
#include "python/call_key.h"

#include <bit>
#include <cstring>

#include "python/eager_tensor.h"

namespace thalweg {
namespace {

enum Kind : uint64_t {
  kTensor = 1,
  kInt,
  kFloat,
  kBool,
  kNone,
  kEllipsis,
  kText,
  kBytes,
  kList,
  kTuple,
  kSlice,
  kObject,
  kAttr,
  kVariable,
  kArray,
};  // fmt: skip

constexpr int kDeepest = 4;

// A string as the one that stands for all that are equal to it. Borrowed: the registry of ops has it, or the caller.
PyObject* interned(PyObject* text) {
  if (PyUnicode_CHECK_INTERNED(text) != 0) [[likely]]
    return text;
  PyObject* one = Py_NewRef(text);
  PyUnicode_InternInPlace(&one);
  Py_DECREF(one);
  return one;
}

}  // namespace

CallKey::CallKey(PyObject* op_type, PyObject* inputs, PyObject* attrs, const KeyTypes& types) : types_(types) {
  if (!PyUnicode_CheckExact(op_type) || !PyTuple_CheckExact(inputs) || !PyDict_CheckExact(attrs)) return;
  if (PyUnicode_GET_LENGTH(op_type) < 2) return;
  with_ranks_ = PyUnicode_READ_CHAR(op_type, 0) == '_' && PyUnicode_READ_CHAR(op_type, 1) == '_';
  ok_ = add_object(kObject, interned(op_type)) && add_elements(kTuple, inputs, 0) && add_attrs(attrs);
}

bool CallKey::add(uint64_t word) {
  if (size_ == kMostWords) return false;
  words_[size_++] = word;
  return true;
}

bool CallKey::add_object(uint64_t kind, PyObject* object) {
  if (num_named_ == kMostNamed) return false;
  named_[num_named_++] = object;
  return add(kind) && add(reinterpret_cast<uint64_t>(object));
}

bool CallKey::add_text(uint64_t kind, const char* text, Py_ssize_t size) {
  if (text == nullptr) {
    PyErr_Clear();
    return false;
  }
  if (!add(kind) || !add(static_cast<uint64_t>(size))) return false;
  for (Py_ssize_t at = 0; at < size; at += static_cast<Py_ssize_t>(sizeof(uint64_t))) {
    uint64_t word = 0;
    std::memcpy(&word, text + at, std::min<size_t>(sizeof word, static_cast<size_t>(size - at)));
    if (!add(word)) return false;
  }
  return true;
}

bool CallKey::add_number(PyObject* number) {
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(number, &overflow);
  return overflow == 0 && add(kInt) && add(static_cast<uint64_t>(value));
}

bool CallKey::add_elements(uint64_t kind, PyObject* sequence, int depth) {
  if (depth > kDeepest) return false;
  has_lists_ = has_lists_ || depth > 0;
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(sequence);
  if (!add(kind) || !add(static_cast<uint64_t>(count))) return false;
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!add_value(PySequence_Fast_GET_ITEM(sequence, i), depth + 1)) return false;
  return true;
}

bool CallKey::add_slice(PyObject* slice, int depth) {
  const auto* parts = reinterpret_cast<PySliceObject*>(slice);
  return add(kSlice) && add_value(parts->start, depth) && add_value(parts->stop, depth) &&
         add_value(parts->step, depth);
}

bool CallKey::add_array(PyObject* array) {
  constexpr Py_ssize_t kMostBytes = 64;
  Py_buffer view;
  if (PyObject_GetBuffer(array, &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) != 0) {
    PyErr_Clear();
    return false;
  }
  bool added = view.len <= kMostBytes && view.format != nullptr && add(kArray) && add(static_cast<uint64_t>(view.ndim));
  for (int axis = 0; axis < view.ndim; ++axis) added = added && add(static_cast<uint64_t>(view.shape[axis]));
  added = added && add_text(kText, view.format, static_cast<Py_ssize_t>(std::strlen(view.format))) &&
          std::strchr(view.format, 'O') == nullptr && add_text(kBytes, static_cast<const char*>(view.buf), view.len);
  PyBuffer_Release(&view);
  return added;
}

bool CallKey::add_value(PyObject* value, int depth) {
  if (is_eager_tensor(value)) {
    if (!with_tensors_ || num_tensors_ == kMostTensors) return false;
    tensors_[num_tensors_++] = value;
    if (with_ranks_ && (!has_value(value) || !add(static_cast<uint64_t>(value_of(value)->rank())))) return false;
    return add(kTensor) && add(reinterpret_cast<uint64_t>(dtype_object_of(value)));
  }
  PyTypeObject* type = Py_TYPE(value);
  if (type == &PyLong_Type) return add_number(value);
  if (type == &PyBool_Type) return add(kBool) && add(value == Py_True);
  if (value == Py_None) return add(kNone);
  if (type == &PyFloat_Type) return add(kFloat) && add(std::bit_cast<uint64_t>(PyFloat_AS_DOUBLE(value)));
  if (type == &PyList_Type) return add_elements(kList, value, depth);
  if (type == &PyTuple_Type) return add_elements(kTuple, value, depth);
  if (type == &PySlice_Type) return add_slice(value, depth + 1);
  if (value == Py_Ellipsis) return add(kEllipsis);
  if (type == &PyBytes_Type) return add_text(kBytes, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value));
  if (type == &PyUnicode_Type) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(value, &size);
    return add_text(kText, text, size);
  }
  if (reinterpret_cast<PyObject*>(type) == types_.variable.ptr()) return add_variable(value);
  if (reinterpret_cast<PyObject*>(type) == types_.array.ptr() ||
      PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(types_.scalar.ptr())) != 0)
    return add_object(kObject, reinterpret_cast<PyObject*>(type)) && add_array(value);
  for (PyObject* exact : types_.exact)
    if (exact == reinterpret_cast<PyObject*>(type)) return add_object(kObject, value);
  return false;
}

// A variable stands for its value, which is read when the call runs.
bool CallKey::add_variable(PyObject* variable) {
  if (!with_tensors_ || with_ranks_ || num_tensors_ == kMostTensors) return false;
  const nanobind::object dtype = nanobind::steal(PyObject_GetAttr(variable, types_.dtype.ptr()));
  if (!dtype.is_valid()) {
    PyErr_Clear();
    return false;
  }
  variables_ |= 1U << num_tensors_;
  tensors_[num_tensors_++] = variable;
  return add_object(kVariable, dtype.ptr());  // Variables have types that stay.
}

bool CallKey::add_attrs(PyObject* attrs) {
  with_tensors_ = false;
  Py_ssize_t place = 0;
  PyObject *name = nullptr, *value = nullptr;
  while (PyDict_Next(attrs, &place, &name, &value) != 0) {
    if (PyUnicode_CheckExact(name) == 0 || PyUnicode_CHECK_INTERNED(name) == 0) return false;
    if (!add_object(kAttr, name) || !add_value(value, 0)) return false;
  }
  return true;
}

}  // namespace thalweg
