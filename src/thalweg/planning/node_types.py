"""The element types of a node against the definition of its op: what a peer's planned step has to satisfy.

A kernel is chosen by attributes and by the types that a node declares, and reads and writes elements of these types. A
node whose declared types contradict its op could make a kernel read or write past a buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from thalweg.graph.definitions.op_signature import ArgDef
from thalweg.graph.definitions.prepared_op import output_dtypes
from thalweg.graph.dtypes import DType
from thalweg.passes.step_graph import Node

# Ops that have no definition and that planning may make: how many inputs (None for any number from one on) and outputs.
# Whatever else has none is made when a part is installed, and must not come from outside.
_PLANNED: Final[dict[str, tuple[int | None, int]]] = {
    "_Arg": (0, 1),
    "_Send": (1, 0),
    "_SendAll": (None, 0),
    "_Recv": (0, 1),
}


def check_node_types(node: Node) -> None:
    """Refuses a node whose types or numbers of inputs and outputs are not those of its op.

    Raises:
        ValueError: If they are not, or if the op type is unknown or private to the task that installs a part.
    """
    definition = node.op_def
    if definition is None:
        _check_planned(node)
        return
    try:
        takes = [dtype for arg in definition.inputs for dtype in _types_of(arg, node)]
        makes = [dtype.base_dtype for dtype in output_dtypes(definition, node.attrs)]
    except (KeyError, TypeError, AttributeError) as e:
        raise ValueError(
            f"Node '{node.name}' (op {node.op}) has an attribute that is missing or invalid: {e}"
        ) from None
    _compare(node, "inputs", node.input_dtypes, takes)
    _compare(node, "outputs", node.output_dtypes, makes)
    for name, attr in definition.attrs.items():
        value = node.attrs.get(name)
        if attr.allowed is not None and attr.kind == "type" and value is not None and value not in attr.allowed:
            raise ValueError(f"Node '{node.name}' (op {node.op}) has {value.name} for '{name}', which is not allowed.")


def _types_of(arg: ArgDef, node: Node) -> Sequence[DType]:
    """The types that an input argument stands for."""
    if arg.type_list_attr is not None:
        return [dtype.base_dtype for dtype in node.attrs[arg.type_list_attr]]
    dtype = arg.dtype if arg.dtype is not None else node.attrs[arg.type_attr or ""]
    count = 1 if arg.number_attr is None else node.attrs[arg.number_attr]
    if count > len(node.input_dtypes):
        raise ValueError(f"Node '{node.name}' (op {node.op}) has fewer inputs than its attributes say.")
    return [dtype.base_dtype] * count


def _compare(node: Node, kind: str, declared: Sequence[DType], expected: Sequence[DType]) -> None:
    if [dtype.base_dtype for dtype in declared] != list(expected):
        raise ValueError(
            f"Node '{node.name}' (op {node.op}) has {kind} of types [{', '.join(dtype.name for dtype in declared)}], "
            f"and with its attributes the op has [{', '.join(dtype.name for dtype in expected)}]."
        )


def _check_planned(node: Node) -> None:
    if node.op not in _PLANNED:
        raise ValueError(f"Node '{node.name}' has the op type '{node.op}', which cannot be part of a planned step.")
    inputs, outputs = _PLANNED[node.op]
    wrong_inputs = not node.input_dtypes if inputs is None else len(node.input_dtypes) != inputs
    if wrong_inputs or len(node.output_dtypes) != outputs:
        raise ValueError(
            f"Node '{node.name}' (op {node.op}) has {len(node.input_dtypes)} inputs and "
            f"{len(node.output_dtypes)} outputs."
        )
