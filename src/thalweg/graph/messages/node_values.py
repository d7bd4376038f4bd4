"""Attributes of a node as AttrValues, checked and completed: for nodes that programs make without op functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from thalweg.graph.definitions.attr_conversion import check_attr
from thalweg.graph.definitions.op_registry import OpDef, op_def
from thalweg.graph.definitions.prepared_op import output_dtypes
from thalweg.graph.dtypes import DType
from thalweg.graph.messages.attr_values import read_any, read_attr


def node_values(
    op_type: str, inputs: Sequence[Any], attrs: Mapping[str, Any]
) -> tuple[OpDef, dict[str, Any], Sequence[DType]]:
    """The definition, the attributes in canonical form, and the output types of a node.

    Raises:
        ValueError: If an attribute is missing, unknown or wrong, or the types of the inputs do not fit.
        errors.NotFoundError: If there is no such op.
    """
    definition = op_def(op_type)
    values: dict[str, Any] = {}
    for key, value in attrs.items():
        attr = definition.attrs.get(key)
        if attr is None:
            if not key.startswith("_"):
                raise ValueError(f"Op '{op_type}' has no attribute '{key}'; it has: {', '.join(definition.attrs)}.")
            values[key] = read_any(value)
            continue
        values[key] = read_attr(value, attr.kind)
        if attr.allowed is not None or attr.minimum is not None:
            check_attr(definition, attr, values[key])
    for key, attr in definition.attrs.items():
        if key not in values:
            if not attr.has_default:
                raise ValueError(f"Op '{op_type}' needs the attribute '{key}' ({attr.kind}).")
            values[key] = attr.default
    _check_inputs(definition, [tensor.dtype.base_dtype for tensor in inputs], values)
    return definition, values, output_dtypes(definition, values)


def _check_inputs(definition: OpDef, given: list[DType], attrs: dict[str, Any]) -> None:
    expected: list[DType] = []
    for arg in definition.inputs:
        if arg.type_list_attr is not None:
            expected.extend(attrs[arg.type_list_attr])
        else:
            dtype = arg.dtype if arg.dtype is not None else attrs[arg.type_attr or ""]
            expected.extend([dtype] * (1 if arg.number_attr is None else attrs[arg.number_attr]))
    if [dtype.base_dtype for dtype in expected] != given:
        raise ValueError(
            f"Op '{definition.name}' with these attributes takes inputs of types "
            f"[{', '.join(dtype.name for dtype in expected)}], got [{', '.join(dtype.name for dtype in given)}]."
        )
