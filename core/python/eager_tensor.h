// Eager tensors for Python: objects of a Python class (thalweg.graph.eager_tensor) whose slots are filled here.
//
// Making one takes no call of Python code. Its value is in the slot `_native`, an object around a Tensor. All functions
// need the lock of the interpreter.
#pragma once

#include <nanobind/nanobind.h>

#include "tensor/tensor.h"

namespace thalweg {

// Sees the values that Python code looks at on a thread.
class ValueReader {
 public:
  virtual ~ValueReader() = default;
  virtual void reads(const Tensor& value) = 0;
};
extern thread_local ValueReader* value_reader;  // null: nobody wants to know

bool is_eager_tensor(PyObject* object);
// A new eager tensor.
nanobind::object make_eager(Tensor tensor);
// The value of an eager tensor, waited for if it is still to come; null for any other object.
const Tensor* value_of(PyObject* object);
// Whether its value has come, as it always has where ops do not run asynchronously.
bool has_value(PyObject* tensor);
// Python's object for the element type of an eager tensor, which is the same for all of that type. Borrowed.
PyObject* dtype_object_of(PyObject* tensor);
// Whether it is a handle of a resource.
bool is_resource(PyObject* tensor);
// Whether a gradient can pass through an eager tensor: numbers that are not integers, and handles.
bool backpropagates(PyObject* tensor);
// A number that no other tensor of the process ever has, also after this one is gone.
uint64_t serial_of(PyObject* tensor);

void bind_eager_tensors(nanobind::module_& m);

}  // namespace thalweg
