"""Adds to an error of the core the operation that failed and the line of the program that created it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from thalweg import errors
from thalweg.passes.mixed_precision import CAST_MARK
from thalweg.passes.references import READ_MARK

if TYPE_CHECKING:
    from thalweg.graph.graph import Graph


def with_operation(error: errors.OpError, graph: Graph) -> errors.OpError:
    """The error with its Operation, if the core said which node failed and the user's graph has it."""
    node = error.node_def
    if not isinstance(node, errors.FailedNode):
        return error
    name = node.name
    for mark in ("/_folded/", READ_MARK, CAST_MARK):
        name = name.split(mark)[0]
    op = graph._operations_by_name.get(name)
    if op is not None:
        message = error.message
        if op.type in ("Placeholder", "PlaceholderV2") and op.outputs[0].shape.rank is not None:
            sizes = ",".join("?" if size is None else str(size) for size in op.outputs[0].shape.as_list())
            message += f" and shape [{sizes}]"
        return errors.error_from_code(error.error_code, message, op=op, node_def=node)
    # A node of a function that was inlined bears the name of the call.
    call, inside = name, list[str]()
    while op is None and "/" in call:
        call, _, last = call.rpartition("/")
        inside.insert(0, last)
        op = graph._operations_by_name.get(call)
    if op is None:
        return error
    function = op.attrs["f"].name if "f" in op.attrs else op.type
    where = f"[node '{'/'.join(inside)}' (op {node.op}) of function '{function}']"
    return errors.error_from_code(error.error_code, f"{error.message} {where}", op=op, node_def=node)
