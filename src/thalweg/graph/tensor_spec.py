"""TensorSpec: the type, shape and name of a tensor that does not exist yet."""

from __future__ import annotations

from typing import Any

from thalweg.graph import dtypes
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.eager_tensor import EagerTensor
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape, as_shape


@export("TensorSpec")
class TensorSpec:
    """Describes a tensor.

    Example:
        >>> tf.TensorSpec([None, 3], tf.float32, name="images")
        TensorSpec(shape=(?, 3), dtype=tf.float32, name='images')
    """

    __slots__ = ("_dtype", "_name", "_shape")

    def __init__(self, shape: Any, dtype: Any = dtypes.float32, name: str | None = None) -> None:
        """Keeps the three."""
        self._shape = as_shape(shape)
        self._dtype = as_dtype(dtype)
        self._name = name

    @classmethod
    def from_tensor(cls, tensor: Tensor, name: str | None = None) -> TensorSpec:
        """The description of a tensor."""
        return cls(tensor.shape, tensor.dtype, name or (None if isinstance(tensor, EagerTensor) else tensor.op.name))

    @classmethod
    def from_spec(cls, spec: TensorSpec, name: str | None = None) -> TensorSpec:
        """A copy, perhaps with another name."""
        return cls(spec.shape, spec.dtype, name or spec.name)

    @property
    def shape(self) -> TensorShape:
        """The static shape."""
        return self._shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._dtype

    @property
    def name(self) -> str | None:
        """The name, if it has one."""
        return self._name

    def is_compatible_with(self, other: Any) -> bool:
        """Whether a tensor (or other description) fits: same type, compatible shape."""
        return self._dtype.is_compatible_with(other.dtype) and self._shape.is_compatible_with(other.shape)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorSpec):
            return NotImplemented
        mine = (self._shape.dims_tuple, self._dtype, self._name)
        return mine == (other._shape.dims_tuple, other._dtype, other._name)

    def __hash__(self) -> int:
        return hash((self._shape.dims_tuple, self._dtype))

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self._shape}, dtype={self._dtype!r}, name={self._name!r})"
