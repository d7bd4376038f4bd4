"""TensorArrays in the elements of datasets: they travel as tensor lists, and each reader gets an array of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.data import structure
from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape, as_shape
from thalweg.graph.tensor_spec import TensorSpec
from thalweg.ops.state.tensor_array import TensorArray


@export("TensorArraySpec")
class TensorArraySpec(structure.NestedSpec):
    """Describes a TensorArray inside an element.

    Example:
        >>> dataset = tf.data.Dataset.range(2).map(lambda i: tf.TensorArray(tf.int64, 1).write(0, i))
        >>> dataset.element_spec
        TensorArraySpec(TensorShape([]), tf.int64, dynamic_size=False, infer_shape=True)
        >>> first = dataset.make_one_shot_iterator().get_next().stack()
        >>> with tf.Session() as session:
        ...     print(session.run(first))
        [0]
    """

    def __init__(
        self,
        element_shape: Any = None,
        dtype: Any = dtypes.float32,
        dynamic_size: bool = False,
        infer_shape: bool = True,
    ) -> None:
        """Keeps the shape and type of the array's elements, and the arguments of its constructor."""
        super().__init__(TensorSpec(as_shape(element_shape), dtypes.as_dtype(dtype)))
        self._dynamic_size = dynamic_size
        self._infer_shape = infer_shape

    def read(self, variant: Tensor) -> TensorArray:
        """A new array with the elements of the tensor list that stands for it."""
        shape, dtype = self.element_spec.shape, self.element_spec.dtype
        with name_scope("read_tensor_array"):
            rows = apply_one("TensorListStack", variant, _shape_argument(shape), element_dtype=dtype)
            size = apply_one("TensorListLength", variant)
            # As in TensorFlow, where lists stand for the arrays of datasets: every element can be read again.
            array = TensorArray(
                dtype, size, self._dynamic_size, clear_after_read=False, infer_shape=self._infer_shape,
                element_shape=shape,
            )  # fmt: skip
            return array.unstack(rows)

    def is_compatible_with(self, other: Any) -> bool:
        """Whether another description, or a TensorArray, fits."""
        return super().is_compatible_with(_spec_of(other) if isinstance(other, TensorArray) else other)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TensorArraySpec)
            and self.element_spec == other.element_spec
            and (self._dynamic_size, self._infer_shape) == (other._dynamic_size, other._infer_shape)
        )

    __hash__ = structure.NestedSpec.__hash__

    def __repr__(self) -> str:
        element = self.element_spec
        return (
            f"TensorArraySpec({element.shape!r}, {element.dtype!r}, dynamic_size={self._dynamic_size}, "
            f"infer_shape={self._infer_shape})"
        )


def _spec_of(array: TensorArray) -> TensorArraySpec:
    return TensorArraySpec(array.element_shape, array.dtype, array.dynamic_size, array._infer_shape)


class _ArrayElement:
    """A TensorArray as a component of an element: its description, and the list that stands for it."""

    def __init__(self, array: TensorArray) -> None:
        with name_scope("write_tensor_array"):
            shape = _shape_argument(array.element_shape)
            self._variant_tensor = apply_one("TensorListFromTensor", array.stack(), shape)
        self._type_spec = _spec_of(array)


def _shape_argument(shape: TensorShape) -> np.ndarray[Any, Any]:
    """A static shape as an argument of list ops: -1 stands for what is not known."""
    sizes = -1 if shape.ndims is None else [-1 if size is None else size for size in shape.as_list()]
    return np.array(sizes, np.int32)


structure.set_element_form(TensorArray, _ArrayElement)
