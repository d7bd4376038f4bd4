"""The value of a variable as one tensor of the graph: its first read, which stands for the variable itself.

In TensorFlow 1 the tensor 'v:0' is the value of variable v; here (and in every graph with resource variables) it is a
handle. Programs that look for 'v:0' want the value, so a look-up by name gives them the read that each variable comes
with, 'v/Read/ReadVariableOp:0'. Feeding this read feeds all readers of the variable, and its gradient is that of the
variable (docs/decisions/0026-values-of-variables.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from thalweg.graph import dtypes

if TYPE_CHECKING:
    from thalweg.graph.tensor import Tensor

_READ = "/Read/ReadVariableOp"


def value_of_handle(tensor: Tensor) -> Tensor | None:
    """The read that stands for a variable, given its handle; None for other tensors, and for handles without one."""
    op = tensor.op
    if op.type != "VarHandleOp":
        return None
    read = op.graph._operations_by_name.get(f"{op.name}{_READ}")
    return read.outputs[0] if read is not None and read.inputs and read.inputs[0] is tensor else None


def handle_of_value(tensor: Tensor) -> Tensor | None:
    """The handle of a variable, given the read that stands for it; None for other tensors."""
    op = tensor.op
    if op.type != "ReadVariableOp" or not op.name.endswith(_READ):
        return None
    handle = op.inputs[0]
    return handle if handle.op.type == "VarHandleOp" and op.name == f"{handle.op.name}{_READ}" else None


def fed_handle(tensor: Tensor) -> Tensor | None:
    """The handle of the variable that is fed with a tensor: its handle, or the read that stands for it."""
    return tensor if tensor.op.type == "VarHandleOp" else handle_of_value(tensor)


def exchanged(tensor: Tensor, wants_handle: bool) -> Tensor:
    """The handle of a variable in the place of its value, or the reverse, where one is given and the other wanted."""
    found = None
    if wants_handle != (tensor.dtype.base_dtype is dtypes.resource):
        found = handle_of_value(tensor) if wants_handle else value_of_handle(tensor)
    return tensor if found is None else found
