"""What a shape function sees of a node under construction, and the call that infers a node's output shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from thalweg.graph import handle_data, static_value
from thalweg.graph.definitions.op_registry import OpDef
from thalweg.graph.tensor_shape import TensorShape

if TYPE_CHECKING:
    from thalweg.graph.tensor import Tensor

_UNKNOWN = TensorShape._of(None)


class ShapeContext:
    """The inputs and attributes of a node. Shape functions get no more than this."""

    __slots__ = ("_attrs", "_inputs", "_op_def", "num_outputs")

    def __init__(self, op_def: OpDef, inputs: Sequence[Tensor], attrs: dict[str, Any], num_outputs: int) -> None:
        """Used by `infer_shapes`."""
        self._op_def = op_def
        self._inputs = inputs
        self._attrs = attrs
        self.num_outputs = num_outputs

    @property
    def op_type(self) -> str:
        """The type of the op."""
        return self._op_def.name

    @property
    def num_inputs(self) -> int:
        """The number of data inputs, lists flattened."""
        return len(self._inputs)

    def input(self, index: int) -> TensorShape:
        """The static shape of an input."""
        return self._inputs[index]._shape

    def inputs(self) -> list[TensorShape]:
        """The static shapes of all inputs."""
        return [tensor._shape for tensor in self._inputs]

    def dims(self, index: int) -> tuple[int | None, ...] | None:
        """The static shape of an input as a tuple, or None if its rank is unknown."""
        return self._inputs[index]._shape.dims_tuple

    def input_dtype(self, index: int) -> Any:
        """The type of an input."""
        return self._inputs[index].dtype

    def attr(self, name: str) -> Any:
        """The value of an attribute."""
        return self._attrs[name]

    def constant(self, index: int, partial: bool = False) -> np.ndarray[Any, Any] | None:
        """The value of an input, if it is known while the graph is built; `partial` allows None among its elements."""
        value: np.ndarray[Any, Any] | None = static_value.constant_value(self._inputs[index], partial)
        return value

    def constant_as_shape(self, index: int) -> TensorShape:
        """The value of an input that is a shape, as far as it is known (-1 counts as unknown)."""
        return static_value.constant_value_as_shape(self._inputs[index])

    def handle_data(self, index: int) -> Any:
        """What is known of the resource behind a handle input; None if nothing is."""
        return handle_data.handle_data(self._inputs[index])


def infer_shapes(
    op_def: OpDef, inputs: Sequence[Tensor], attrs: dict[str, Any], name: str, num_outputs: int
) -> list[TensorShape]:
    """Runs the shape function of an op.

    Raises:
        ValueError: If the shapes of the inputs do not fit the op; the message names the node and the shapes.
    """
    if num_outputs == 0 and op_def.shape is None:
        return []
    function = op_def.shape
    if function is None:
        return [_UNKNOWN] * num_outputs
    context = ShapeContext(op_def, inputs, attrs, num_outputs)
    try:
        shapes = function(context)
    except ValueError as e:
        raise ValueError(f"{str(e).rstrip('.')} for {_describe(op_def, inputs, name)}.") from e
    if type(shapes) is TensorShape:
        if num_outputs == 1:
            return [shapes]
        shapes = [shapes]
    result: list[TensorShape] = list(shapes)
    assert len(result) == num_outputs, f"{op_def.name}: {len(result)} shapes for {num_outputs} outputs"
    return result


def _describe(op_def: OpDef, inputs: Sequence[Tensor], name: str) -> str:
    shapes = ", ".join(_short(tensor._shape) for tensor in inputs)
    text = f"'{name}' (op: '{op_def.name}') with input shapes: {shapes}"
    values = []
    for i, tensor in enumerate(inputs):
        value = static_value.constant_value(tensor) if tensor.op.type == "Const" else None
        if value is not None and value.ndim <= 1 and value.size <= 10 and value.dtype.kind in "iub":
            values.append(f"input[{i}] = <{' '.join(str(item) for item in value.ravel())}>")
    return f"{text} and with computed input tensors: {', '.join(values)}" if values else text


def _short(shape: TensorShape) -> str:
    dims = shape.dims_tuple
    return "<unknown>" if dims is None else "[" + ",".join("?" if d is None else str(d) for d in dims) + "]"
