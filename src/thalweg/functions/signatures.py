"""Signatures of functions as op definitions: a call may be a node whose op type is the function's name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.definitions.op_registry import OpDef
from thalweg.graph.definitions.op_signature import ArgDef, AttrDef
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.messages.attr_values import read_attr
from thalweg.graph.op_effects import Effect, Flow
from thalweg.graph.tensor_shape import TensorShape


class FunctionOp(OpDef):
    """The definition of an op type that is the name of a function. It is known to the graph's library only."""

    __slots__ = ()

    def __init__(
        self, name: str, inputs: Sequence[ArgDef], outputs: Sequence[ArgDef], attrs: dict[str, AttrDef], stateful: bool
    ) -> None:
        """Takes the parts of a FunctionDef's signature."""
        super().__init__(name, "", "", _result_shapes, stateful)
        self.effect = Effect.CALLS if stateful else Effect.NONE
        self.flow = Flow.CALL
        self._inputs = tuple(inputs)
        self._outputs = tuple(outputs)
        self._attrs = attrs


def _result_shapes(ctx: ShapeContext) -> list[TensorShape]:
    found = get_default_graph()._get_function(ctx.op_type)
    shapes = None if found is None else found.known_output_shapes
    return [TensorShape(None)] * ctx.num_outputs if shapes is None else shapes


def plain_arg(name: str, dtype: DType) -> ArgDef:
    """An argument that is one tensor of a fixed type."""
    return ArgDef(name, dtype=dtype)


def read_signature(proto: Any) -> FunctionOp:
    """The definition in the OpDef protobuf of a FunctionDef.

    Raises:
        ValueError: If it is not well-formed.
    """
    try:
        attrs = {attr.name: _read_attr_def(attr) for attr in proto.attr}
        inputs = [_read_arg(arg, attrs) for arg in proto.input_arg]
        outputs = [_read_arg(arg, attrs) for arg in proto.output_arg]
    except (ValueError, TypeError, KeyError) as e:
        raise ValueError(f"The signature of function '{proto.name}' is not well-formed: {e}") from e
    names = [arg.name for arg in inputs]
    if len(set(names)) < len(names):
        raise ValueError(f"Function '{proto.name}' has two arguments of one name: {', '.join(names)}.")
    return FunctionOp(proto.name, inputs, outputs, attrs, proto.is_stateful)


def _read_arg(proto: Any, attrs: dict[str, AttrDef]) -> ArgDef:
    number = proto.number_attr or None
    for attr, kind in ((number, "int"), (proto.type_attr, "type"), (proto.type_list_attr, "list(type)")):
        if attr and (attr not in attrs or attrs[attr].kind != kind):
            raise ValueError(f"argument '{proto.name}' needs an attribute '{attr}' of type {kind}")
    if proto.type_list_attr:
        return ArgDef(proto.name, type_list_attr=proto.type_list_attr)
    if proto.type_attr:
        return ArgDef(proto.name, type_attr=proto.type_attr, number_attr=number, is_ref=proto.is_ref)
    if not proto.type:
        raise ValueError(f"argument '{proto.name}' has no type")
    return ArgDef(proto.name, dtype=as_dtype(proto.type), number_attr=number, is_ref=proto.is_ref)


def _read_attr_def(proto: Any) -> AttrDef:
    if proto.HasField("default_value"):
        return AttrDef(proto.name, proto.type, None, None, True, read_attr(proto.default_value, proto.type))
    return AttrDef(proto.name, proto.type)


def arg_ranges(args: Sequence[ArgDef], attrs: dict[str, Any]) -> dict[str, range]:
    """For each argument (or result) of a node with these attributes: which flat inputs (outputs) are its tensors.

    Raises:
        ValueError: If an attribute that says how many there are is missing, or makes no sense.
    """
    ranges: dict[str, range] = {}
    start = 0
    for arg in args:
        length = 1
        if arg.number_attr is not None:
            length = attrs.get(arg.number_attr, -1)
        elif arg.type_list_attr is not None:
            length = len(attrs.get(arg.type_list_attr, ()))
        if not isinstance(length, int) or not 0 <= length < 1 << 20:
            raise ValueError(f"attr '{arg.number_attr}' does not say how many tensors '{arg.name}' has")
        ranges[arg.name] = range(start, start + length)
        start += length
    return ranges


def flat_types(args: Sequence[ArgDef], attrs: dict[str, Any]) -> list[DType]:
    """The types of all tensors of arguments (or results), lists flattened."""
    types: list[DType] = []
    for arg, places in zip(args, arg_ranges(args, attrs).values(), strict=True):
        if arg.type_list_attr is not None:
            types.extend(attrs[arg.type_list_attr])
        else:
            types.extend([arg.dtype if arg.dtype is not None else attrs[arg.type_attr or ""]] * len(places))
    return types
