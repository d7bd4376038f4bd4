// Keys that are equal only for values that are the same.
#include "python/exact_key.h"

#include <array>
#include <cmath>
#include <cstring>

namespace thalweg {
namespace {

// A float's own object where equality goes by bits anyway; the bits of zeros and of what is not a number.
PyObject* of_float(PyObject* value) {
  const double number = PyFloat_AS_DOUBLE(value);
  if (number != 0 && !std::isnan(number)) return Py_NewRef(value);
  std::array<char, sizeof number> bits{};
  std::memcpy(bits.data(), &number, sizeof number);
  return PyBytes_FromStringAndSize(bits.data(), sizeof number);
}

// The stand-ins of the elements, in a tuple; null if one has none.
PyObject* of_elements(PyObject* value, PyObject* exact) {
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(value);
  nanobind::object made = nanobind::steal(PyTuple_New(2 * count));
  if (!made.is_valid()) return nullptr;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject *type = nullptr, *rest = nullptr;
    if (!exact_key(PySequence_Fast_GET_ITEM(value, i), exact, type, rest)) return nullptr;
    PyTuple_SET_ITEM(made.ptr(), 2 * i, type);
    PyTuple_SET_ITEM(made.ptr(), 2 * i + 1, rest);
  }
  return made.release().ptr();
}

bool is_plain(PyTypeObject* type) {
  return type == &PyLong_Type || type == &PyUnicode_Type || type == &PyBool_Type || type == &PyBytes_Type ||
         type == Py_TYPE(Py_None);
}

}  // namespace

bool exact_key(PyObject* value, PyObject* exact, PyObject*& type, PyObject*& rest) {
  PyTypeObject* kind = Py_TYPE(value);
  PyObject* made = nullptr;
  if (is_plain(kind)) {
    made = Py_NewRef(value);
  } else if (kind == &PyFloat_Type) {
    made = of_float(value);
  } else if (kind == &PyTuple_Type || kind == &PyList_Type) {
    if (Py_EnterRecursiveCall(" in an attribute of an op") != 0) {
      PyErr_Clear();
      return false;
    }
    made = of_elements(value, exact);
    Py_LeaveRecursiveCall();
  } else if (PySequence_Contains(exact, reinterpret_cast<PyObject*>(kind)) == 1) {
    made = Py_NewRef(value);
  }
  if (made == nullptr) {
    PyErr_Clear();
    return false;
  }
  type = Py_NewRef(reinterpret_cast<PyObject*>(kind));
  rest = made;
  return true;
}

}  // namespace thalweg
