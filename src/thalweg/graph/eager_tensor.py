"""EagerTensor: a tensor that has its value: what ops return that run at once."""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from thalweg.graph.dtypes import DType
from thalweg.graph.immediate import immediate
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape

_OF_GRAPHS = ("op", "name", "graph", "value_index")


class EagerTensor(Tensor):
    """A tensor with a value. Made by the core only; immutable, so that it may share memory with other tensors.

    What a tensor of a graph knows of its place there (`op`, `name`, `graph`, `consumers`) means nothing here.
    """

    # `_native` is the value, an object of the core; `_dims` the shape, once somebody has asked for it; `_handle_data`
    # of Tensor says what is behind a handle; by `_serial` tapes know it. The core fills the slots
    # (core/python/eager_tensor.cc).
    __slots__ = ("_dims", "_native", "_serial")

    _native: Any
    _dims: Any

    def __init__(self, *_: Any) -> None:
        """Refused: values become tensors by `tf.constant` and `tf.convert_to_tensor`."""
        raise TypeError("An EagerTensor is made by tf.constant or tf.convert_to_tensor.")

    # The value.

    def __getattr__(self, name: str) -> Any:
        if name == "_native":  # A slot that is empty as long as the op has not run, in asynchronous mode.
            return _waited_for(self)
        if name in _OF_GRAPHS:
            raise _meaningless(name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def numpy(self) -> Any:
        """The value as a NumPy array that shares its memory, and so is read-only; a NumPy scalar for rank 0."""
        if self.dtype.base_dtype.name in ("resource", "variant"):
            raise TypeError(f"A tensor of type {self.dtype.name} has no value that NumPy could hold.")
        return array_of(self._native)

    def _value_now(self) -> Any:
        """The value as an array, also of rank 0; None for handles: what static evaluation finds."""
        return None if self.dtype.base_dtype.name in ("resource", "variant") else array_of(self._native, False)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        value = np.asarray(self.numpy())
        if dtype is not None and value.dtype != dtype:
            return value.astype(dtype)
        return value.copy() if copy else value

    def __bool__(self) -> bool:
        return bool(self.numpy())

    def __int__(self) -> int:
        return int(self.numpy())

    def __float__(self) -> float:
        return float(self.numpy())

    def __complex__(self) -> complex:
        return complex(self.numpy())

    def __index__(self) -> int:
        return operator.index(self.numpy())

    def __len__(self) -> int:
        dims = self._native.shape
        if not dims:
            raise TypeError("Scalar tensor has no `len()`")
        return int(dims[0])

    def __iter__(self) -> Iterator[Any]:
        dims = self._native.shape
        if not dims:
            raise TypeError("Cannot iterate over a scalar tensor.")
        for i in range(dims[0]):
            yield self[i]

    def __format__(self, spec: str) -> str:
        return format(self.numpy(), spec)

    def __reduce__(self) -> Any:
        return _restored, (np.array(self.numpy()), self.dtype.as_datatype_enum)

    def __copy__(self) -> EagerTensor:
        return self

    def __deepcopy__(self, memo: Any) -> EagerTensor:
        return self  # Nobody can change it.

    def __dlpack__(self, **options: Any) -> Any:
        """A capsule that shares the value with another library, which must not write it."""
        return dlpack_of(self._native)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # kDLCPU

    # The type and shape.

    @property
    def shape(self) -> TensorShape:
        """The shape: all dimensions are known."""
        if self._dims is None:
            self._dims = TensorShape._of(self._native.shape)
        dims: TensorShape = self._dims
        return dims

    _shape = shape

    def get_shape(self) -> TensorShape:
        """The same as `shape`."""
        return self.shape

    @property
    def ndim(self) -> int:
        """The rank."""
        return len(self._native.shape)

    def _shape_tuple(self) -> tuple[int, ...]:
        dims: tuple[int, ...] = self._native.shape
        return dims

    def _shape_as_list(self) -> list[int | None]:
        return list(self._native.shape)

    def set_shape(self, shape: Any) -> None:
        """Checks the shape."""
        if not self.shape.is_compatible_with(TensorShape(shape)):
            raise ValueError(f"Tensor's shape {self.shape} is not compatible with supplied shape {shape}")

    # The device.

    @property
    def device(self) -> str:
        """The device that has the value."""
        return _place.name

    def cpu(self) -> EagerTensor:
        """The value in the memory of the host."""
        return self

    def gpu(self, gpu_index: int = 0) -> NoReturn:
        """Not available: there are no GPUs."""
        raise RuntimeError(f"There is no device GPU:{gpu_index}.")

    # Places in a graph.

    @property
    def op(self) -> Any:  # type: ignore[override]
        """Meaningless here."""
        raise _meaningless("op")

    @property
    def name(self) -> Any:
        """Meaningless here."""
        raise _meaningless("name")

    @property
    def graph(self) -> Any:
        """Meaningless here."""
        raise _meaningless("graph")

    @property
    def value_index(self) -> Any:  # type: ignore[override]
        """Meaningless here."""
        raise _meaningless("value_index")

    def consumers(self) -> NoReturn:
        """Not available: nothing keeps track of what reads a value."""
        raise NotImplementedError("Tensor.consumers is meaningless when eager execution is enabled.")

    def eval(self, feed_dict: Any = None, session: Any = None) -> NoReturn:
        """Not available: the value is there already."""
        raise NotImplementedError(
            "eval is not supported when eager execution is enabled, is .numpy() what you're looking for?"
        )

    # Text.

    def _text(self) -> str:
        if self.dtype.base_dtype.name in ("resource", "variant"):
            return f"<unprintable {self.dtype.name}>"
        value = self.numpy()
        return str(value) if self.dtype.is_numpy_compatible else "<unprintable>"

    def __repr__(self) -> str:
        if self.dtype.base_dtype.name in ("resource", "variant"):
            return f"<tf.Tensor: shape={self.shape}, dtype={self.dtype.name}, numpy={self._text()}>"
        return f"<tf.Tensor: shape={self.shape}, dtype={self.dtype.name}, numpy={self.numpy()!r}>"

    def __str__(self) -> str:
        return f"tf.Tensor({self._text()}, shape={self.shape}, dtype={self.dtype.name})"

    @classmethod
    def override_operator(cls, operator: str, function: Any) -> None:
        """Refused: operators belong to Tensor."""
        raise ValueError("Override the operator of tf.Tensor: those of eager tensors are the same.")


def _meaningless(attribute: str) -> AttributeError:
    return AttributeError(f"Tensor.{attribute} is meaningless when eager execution is enabled.")


class _Place:
    """The name of the device that has the values."""

    name = "/job:localhost/replica:0/task:0/device:CPU:0"


_place = _Place()


# What the core does for eager tensors; set by `connect` when the core is loaded for them.
def _not_connected(*_: Any) -> Any:
    raise AssertionError("There are no eager tensors yet.")


array_of: Any = _not_connected
dlpack_of: Any = _not_connected
from_array: Any = _not_connected
pending: Any = _not_connected
_waited_for: Any = _not_connected
types_and_shapes: Any = _not_connected


def set_waiting(function: Any) -> None:
    """Says who returns the value of a tensor that is still to come."""
    global _waited_for
    _waited_for = function


def connect(core: Any, dtypes: dict[int, DType]) -> None:
    """Tells the core about the class, and takes the functions that look at values."""
    module = sys.modules[__name__]
    slots: Any = {**vars(Tensor), **vars(EagerTensor)}
    names = ("_native", "dtype", "_handle_data", "_dims", "_serial")
    core.set_eager_type(EagerTensor, *(slots[name] for name in names), dtypes)
    immediate.is_view = core.is_view_of_tensor
    vars(module).update(
        array_of=core.array_of,
        dlpack_of=core.dlpack_of,
        from_array=core.eager_from_array,
        pending=core.eager_pending,
        types_and_shapes=core.types_and_shapes,
    )


def _restored(value: Any, dtype: int) -> Any:
    return from_array(value, dtype)
