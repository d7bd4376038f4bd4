// The Python object around a tensor that NumPy cannot hold, such as a resource handle.
#pragma once

#include <Python.h>

#include "tensor/tensor.h"

namespace thalweg {

// The tensor inside `object` if it is such an object, else null.
const Tensor* opaque_tensor(PyObject* object);
PyObject* opaque_from_tensor(Tensor tensor);

}  // namespace thalweg
