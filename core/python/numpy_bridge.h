// NumPy arrays to tensors and back, without copies where the layout allows it. All functions need the GIL.
#pragma once

#include <Python.h>

#include "tensor/tensor.h"

namespace thalweg {

// Must run once, from the module's initialization. Throws if NumPy cannot be imported.
void init_numpy();
// Registers the NumPy descriptor of an element type that NumPy does not have itself (bfloat16, the quantized types).
void register_descr(DType dtype, PyObject* descr);

// The element type of a NumPy array; invalid if there is none.
DType dtype_of_array(PyObject* array);

// A tensor of exactly this element type from anything NumPy can convert, strings included. A large array that is
// contiguous, aligned, native and of the right type is borrowed, a small one copied. Throws Error or PythonError.
enum class Sharing { borrow, copy };
Tensor tensor_from_python(PyObject* value, DType dtype, Sharing sharing);

// A new reference: an ndarray, or the scalar for rank 0. The tensor's buffer is handed over if this is the only
// reference.
PyObject* python_from_tensor(Tensor tensor, bool scalars = true);
// Whether an ndarray shares the memory of a tensor, and can never be written.
bool is_view_of_tensor(PyObject* array);
// A read-only ndarray that shares the tensor's memory (strings are copied): the view for kernels written in Python.
PyObject* view_from_tensor(const Tensor& tensor);

// A Python exception is set; it travels through C++ as this.
struct PythonError {};

}  // namespace thalweg
