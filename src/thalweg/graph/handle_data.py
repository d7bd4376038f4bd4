"""What is known, while a graph is built, of the resource behind a handle: the element type and shape of its value."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from thalweg.graph.dtypes import DType, float32
from thalweg.graph.tensor_shape import TensorShape

if TYPE_CHECKING:
    from thalweg.graph.tensor import Tensor


class HandleData(NamedTuple):
    """The type and shape of the value behind a resource handle."""

    dtype: DType
    shape: TensorShape


def handle_data(tensor: Tensor) -> HandleData | None:
    """Returns the type and shape behind a resource tensor, found at the op that made the handle; None if unknown.

    Looking it up, instead of storing it with every tensor, makes it right for imported graphs and for handles that a
    branch or a loop captured.
    """
    seen: set[Tensor] = set()
    while tensor not in seen:
        seen.add(tensor)
        if tensor._handle_data is not None:
            data: HandleData = tensor._handle_data
            return data
        op = getattr(tensor, "op", None)
        if op is None:
            return None  # An eager tensor, which says all that there is to know.
        if op.type == "VarHandleOp":
            return HandleData(op.attrs["dtype"], op.attrs["shape"])
        if op.type == "_RefHandle":
            return HandleData(op.attrs["T"], op.inputs[0].shape)
        if op.type == "EmbeddingTableHandle":
            return HandleData(float32, TensorShape([None, op.attrs["dim"]]))
        if op.type != "IdentityN" and not op.op_def.flow.passes_input:
            return None
        # A loop's Merge has the value from before the loop as its first input; when imported, it may be another.
        tensor = op.inputs[tensor.value_index if op.type == "IdentityN" else 0]
    return None
