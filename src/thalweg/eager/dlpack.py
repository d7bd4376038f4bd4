"""Values of other libraries, shared by DLPack."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph import eager_tensor
from thalweg.graph.default_graph import eager_graph
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import as_dtype
from thalweg.graph.eager_tensor import EagerTensor


@export("from_dlpack")
def from_dlpack(value: Any) -> EagerTensor:
    """An eager tensor that shares the memory of an array of another library, which must not write it any more.

    Args:
        value: An object with `__dlpack__`, in the memory of the host.

    Example:
        >>> a = np.arange(3.0)
        >>> tf.from_dlpack(a).numpy().ctypes.data == a.ctypes.data  # Small arrays are copied.
        False
    """
    if not hasattr(value, "__dlpack__"):
        raise TypeError(f"from_dlpack takes an object with the method __dlpack__, not a {type(value).__name__}.")
    eager_graph()  # Connects the core.
    array = np.from_dlpack(value)
    dtype = as_dtype(array.dtype)
    made: EagerTensor = eager_tensor.from_array(array, dtype.as_datatype_enum, True)
    return made
