"""The attributes and element types of a node against the definition of its op: what a peer's step has to satisfy.

A kernel is chosen by attributes and by the types that a node declares, and reads and writes elements of these types. A
node whose declared types contradict its op could make a kernel read or write past a buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from thalweg.graph.definitions.op_signature import ArgDef, AttrDef, NameAttrList
from thalweg.graph.definitions.prepared_op import output_dtypes
from thalweg.graph.dtypes import DType
from thalweg.graph.tensor_shape import TensorShape
from thalweg.passes.step_graph import Node

# Ops that have no definition and that planning may make: how many inputs and outputs, and which attributes of which
# kinds. Whatever else has none is made when a part is installed, and must not come from outside.
_KEY: Final = {"tensor_name": "string", "send_device": "string", "recv_device": "string"}
_PLANNED: Final[dict[str, tuple[int, int, dict[str, str]]]] = {
    "_Arg": (0, 1, {"index": "int"}),
    "_Send": (1, 0, {**_KEY, "T": "type"}),
    "_Recv": (0, 1, {**_KEY, "tensor_type": "type"}),
}

# The kinds of attributes, as values in canonical form.
_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (float, int),
    "string": (bytes,),
    "type": (DType,),
    "shape": (TensorShape,),
    "tensor": (np.ndarray,),
    "func": (NameAttrList,),
}


def check_node_types(node: Node) -> None:
    """Refuses a node whose types or numbers of inputs and outputs are not those of its op.

    Raises:
        ValueError: If they are not, if an attribute is of another kind than the definition says, or if the op type is
            unknown or private to the task that installs a part.
    """
    members = node.attrs.get("_members", []), node.attrs.get("_member_ops", [])
    if any(not isinstance(each, list) for each in members) or len(members[0]) != len(members[1]):
        raise ValueError(f"Node '{node.name}' (op {node.op}) stands for {members[0]!r} of the types {members[1]!r}.")
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
        if name in node.attrs:
            _check_attr(node, attr, node.attrs[name])
        elif not attr.has_default:
            raise ValueError(f"Node '{node.name}' (op {node.op}) lacks the attribute '{name}'.")


def _check_attr(node: Node, attr: AttrDef, value: Any) -> None:
    """Refuses a value of another kind than the definition says, and one that it does not allow."""
    is_list = attr.kind.startswith("list(")
    kind = _KINDS[attr.kind[5:-1] if is_list else attr.kind]
    values = value if is_list and isinstance(value, list) else [value]
    if any(type(each) not in kind for each in values) or isinstance(value, list) != is_list:
        raise ValueError(f"Node '{node.name}' (op {node.op}) has {value!r} for '{attr.name}', which is {attr.kind}.")
    if attr.allowed is not None and any(each not in attr.allowed for each in values):
        raise ValueError(f"Node '{node.name}' (op {node.op}) has {value!r} for '{attr.name}', which is not allowed.")
    if attr.minimum is not None and (len(value) if is_list else value) < attr.minimum:
        raise ValueError(
            f"Node '{node.name}' (op {node.op}) has {value!r} for '{attr.name}', and {attr.minimum} is the least."
        )


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
    inputs, outputs, attrs = _PLANNED[node.op]
    if len(node.input_dtypes) != inputs or len(node.output_dtypes) != outputs:
        raise ValueError(
            f"Node '{node.name}' (op {node.op}) has {len(node.input_dtypes)} inputs and "
            f"{len(node.output_dtypes)} outputs."
        )
    for name, kind in attrs.items():
        _check_attr(node, AttrDef(name, kind), node.attrs.get(name))
    transferred = node.attrs.get("T", node.attrs.get("tensor_type"))
    if node.op != "_Arg" and [transferred] != [each.base_dtype for each in node.input_dtypes + node.output_dtypes]:
        raise ValueError(f"Node '{node.name}' (op {node.op}) moves another element type than it says.")
