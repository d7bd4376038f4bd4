// Pixels that Pillow has decoded, as tensors, without going through NumPy.
#pragma once

#include <Python.h>

#include "tensor/tensor.h"

namespace thalweg {

// A uint8 tensor [height, width, channels] of the image behind a capsule of Arrow's C data interface: RGB images, which
// Pillow keeps in four bytes a pixel, and grey ones. Needs the GIL, which it releases while it copies. An image that is
// laid out in another way is an InvalidArgument error.
Tensor pixels_from_arrow(PyObject* capsule, int64_t height, int64_t width, int64_t channels);

}  // namespace thalweg
