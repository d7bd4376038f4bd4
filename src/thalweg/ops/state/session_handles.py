"""Values that stay in a session between steps: `tf.get_session_handle` keeps one, and gives a handle to it."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one, apply_op
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import device
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, not_differentiable
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.op_effects import Effect
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.ops.array.constants import placeholder

define("GetSessionHandle", "value: T -> handle: string", "T: type", shape=shapes.scalar, effect=Effect.WRITES)
define("GetSessionHandleV2", "value: T -> handle: resource", "T: type", shape=shapes.scalar, effect=Effect.WRITES)
define("GetSessionTensor", "handle: string -> value: dtype", "dtype: type", shape=shapes.unknown, effect=Effect.READS)
define("DeleteSessionTensor", "handle: string ->", shape=shapes.no_outputs, effect=Effect.WRITES)
not_differentiable("GetSessionHandle", "GetSessionHandleV2", "GetSessionTensor", "DeleteSessionTensor")


class TensorHandle:
    """The fetched value of `tf.get_session_handle`: names a tensor that the session keeps."""

    def __init__(self, handle: Any, dtype: DType, session: Any) -> None:
        """Used by the session."""
        self._handle = handle.decode() if isinstance(handle, bytes) else str(handle)
        self._dtype = dtype
        self._session = session

    @property
    def handle(self) -> str:
        """The handle, to be fed to the placeholder of `tf.get_session_tensor`."""
        return self._handle

    @property
    def dtype(self) -> DType:
        """The type of the value."""
        return self._dtype

    def _nodes(self) -> tuple[Tensor, Tensor, Tensor, Operation]:
        """The nodes that read and delete values of this type on their device: made once per graph."""
        made: dict[tuple[DType, str], Any] = self._session.graph._attachments.setdefault("session_tensors", {})
        kind = self._dtype, _device_of(self._handle)
        if kind not in made:
            with self._session.graph.as_default(), self._session.graph.control_dependencies(None):
                made[kind] = (
                    *get_session_tensor(self._handle, self._dtype),
                    *delete_session_tensor(self._handle),
                )
        nodes: tuple[Tensor, Tensor, Tensor, Operation] = made[kind]
        return nodes

    def eval(self) -> Any:
        """The value."""
        holder, value, _, _ = self._nodes()
        return self._session.run(value, {holder: self._handle})

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """The value, so that a handle can be fed in its place."""
        return np.asarray(self.eval(), dtype)

    def delete(self) -> None:
        """Makes the session forget the value."""
        _, _, holder, delete = self._nodes()
        self._session.run(delete, {holder: self._handle})

    def get_raw_handle(self) -> str:
        """The handle."""
        return self._handle

    def __str__(self) -> str:
        return self._handle


@export("get_session_handle")
def get_session_handle(data: Any, name: str | None = None) -> Tensor:
    """A tensor that, when fetched, keeps the value of `data` in the session and gives a handle to it.

    Example:
        >>> a, b = tf.constant(10), tf.constant(5)
        >>> with tf.Session() as sess:
        ...     h = sess.run(tf.get_session_handle(a * b))
        ...     p, product = tf.get_session_tensor(h.handle, tf.int32)
        ...     print(sess.run(product + 1, {p: h.handle}))
        51
    """
    if not isinstance(data, Tensor):
        data = convert_to_tensor(data)
    return apply_one("GetSessionHandle", data, name=name)


@export("get_session_tensor")
def get_session_tensor(handle: Any, dtype: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """A placeholder for a handle, and the value that the handle fed there names.

    Args:
        handle: The handle, or any other of the same session and device.
        dtype: The type of the value.
        name: The node's name.
    """
    with device(_device_of(handle)):
        holder = placeholder(dtypes.string, shape=[])
        return holder, apply_one("GetSessionTensor", holder, dtype=as_dtype(dtype), name=name)


@export("delete_session_tensor")
def delete_session_tensor(handle: Any, name: str | None = None) -> tuple[Tensor, Operation]:
    """A placeholder for a handle, and the operation that makes the session forget the value it names."""
    with device(_device_of(handle)):
        holder = placeholder(dtypes.string, shape=[])
        return holder, apply_op("DeleteSessionTensor", holder, name=name)


def _device_of(handle: Any) -> str:
    """The device that a handle's value is on: the last part of the handle; "" if the text is no handle."""
    text = handle.decode() if isinstance(handle, bytes) else str(handle)
    _, separator, name = text.rpartition(";")
    return name if separator and name.startswith("/") else ""
