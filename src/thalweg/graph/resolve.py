"""resolve(): from an op type and argument values to converted inputs, complete attributes and output types.

Nothing here knows of graphs, names or scopes: the caller brings its class of tensors and the function that makes one of
a value. `graph.apply` resolves an op and adds a node; immediate execution resolves an op and runs its kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple

from thalweg.graph.convert_inputs import Convert, T, check_inferred, convert_inputs
from thalweg.graph.definitions.attr_conversion import CONVERTERS, check_attr, convert_attr
from thalweg.graph.definitions.op_registry import OpDef
from thalweg.graph.definitions.prepared_op import PreparedOp, output_dtypes, prepare
from thalweg.graph.dtypes import DType


class Resolved(NamedTuple, Generic[T]):
    """One use of an op, ready to become a node or to run.

    Attributes:
        definition: The op's definition.
        inputs: The tensors, lists flattened.
        attrs: All attributes, in canonical form; the caller may keep the dictionary.
        output_dtypes: One per output, lists flattened.
    """

    definition: OpDef
    inputs: Sequence[T]
    attrs: dict[str, Any]
    output_dtypes: Sequence[DType]


def resolve(
    op_type: str, inputs: tuple[Any, ...], attrs: dict[str, Any], convert: Convert[T], tensor_type: type[T]
) -> Resolved[T]:
    """Finds out everything about one use of an op that does not depend on where it will run.

    Args:
        op_type: The op type, as given to `define`.
        inputs: One value per input argument, in order; a list or tuple of values where the op takes a list.
        attrs: Attributes; None means the default. Those that follow from the inputs (types, lengths) are inferred.
        convert: Makes a tensor of a value.
        tensor_type: The class of these tensors; arguments of exactly this class and of the right type stay as they are.

    Returns:
        Definition, converted inputs, complete attributes, types of the outputs.

    Raises:
        errors.NotFoundError: If there is no such op.
        TypeError: If an input or attribute has the wrong type, or the number of arguments is wrong.
        ValueError: If an attribute or the length of a list is not allowed.
    """
    prepared = prepare(op_type, inputs)
    only_tensors = prepared.simple and all(type(value) is tensor_type for value in inputs)
    resolved = resolve_prepared(prepared, inputs, attrs, None if only_tensors else convert, tensor_type, op_type)
    return Resolved(prepared.op_def, *resolved)


def resolve_prepared(
    prepared: PreparedOp,
    inputs: tuple[Any, ...],
    attrs: dict[str, Any],
    convert: Convert[T] | None,
    tensor_type: type[T],
    node: str,
) -> tuple[Sequence[T], dict[str, Any], Sequence[DType]]:
    """The part of `resolve` for a caller that has looked at the arguments itself.

    Args:
        prepared: What `prepare` returned.
        inputs: The arguments.
        attrs: The attributes that are given.
        convert: None if the op is `simple` and every argument is a `tensor_type`.
        tensor_type: The class of the caller's tensors.
        node: The name of the node for error messages.

    Returns:
        The inputs, attributes and output types of `Resolved`.
    """
    values = prepared.defaults.copy()
    if attrs:
        _set_attrs(prepared.op_def, attrs, values)
    tensors: Sequence[T] = inputs
    if convert is not None:
        tensors = convert_inputs(prepared, inputs, values, convert, tensor_type)
        check_inferred(prepared, values, node)
    elif prepared.uniform is None or prepared.uniform in values:
        _infer_types(prepared, inputs, values, node)
    else:
        dtype = inputs[0].dtype.base_dtype
        values[prepared.uniform] = dtype
        if prepared.allowed is not None and dtype not in prepared.allowed:
            raise prepared.not_allowed(prepared.args[0][0], dtype, node)
        for tensor in inputs:
            if tensor.dtype is not dtype and tensor.dtype.base_dtype is not dtype:
                _infer_types(prepared, inputs, values, node)  # Raises, naming both.
    if len(values) != prepared.num_attrs:
        _complete(prepared.op_def, values)
    if prepared.output_attr is not None:
        return tensors, values, (values[prepared.output_attr],)
    if prepared.output_types is not None:
        return tensors, values, prepared.output_types
    return tensors, values, output_dtypes(prepared.op_def, values)


def _set_attrs(definition: OpDef, attrs: dict[str, Any], values: dict[str, Any]) -> None:
    declared = definition.attrs
    for key, value in attrs.items():
        attr = declared.get(key)
        if attr is None:
            if key[0] != "_":
                raise TypeError(
                    f"'{definition.name}' Op got an unexpected attribute '{key}'; it has: {', '.join(declared)}."
                )
            raise TypeError(f"'{definition.name}' Op: attribute '{key}' is private; use Graph._attr_scope.")
        if value is None and attr.has_default:
            continue
        converter = CONVERTERS.get(attr.kind)
        value = convert_attr(definition, attr, value) if converter is None else converter(definition, attr, value)
        if attr.allowed is not None or attr.minimum is not None:
            check_attr(definition, attr, value)
        values[key] = value


def _infer_types(prepared: PreparedOp, inputs: tuple[Any, ...], values: dict[str, Any], node: str) -> None:
    """Infers the type attributes from arguments that are all tensors; refuses types that do not fit."""
    for (arg, type_attr, fixed, allowed), tensor in zip(prepared.args, inputs, strict=True):
        dtype = tensor.dtype.base_dtype
        if type_attr is None:
            if dtype is not fixed:
                raise prepared.wrong_fixed_type(arg, dtype)
            continue
        known = values.get(type_attr)
        if known is None:
            if allowed is not None and dtype not in allowed:
                raise prepared.not_allowed(arg, dtype, node)
            values[type_attr] = dtype
        elif known is not dtype:
            raise prepared.mismatch(arg, dtype, known)


def _complete(definition: OpDef, values: dict[str, Any]) -> None:
    """Fills attributes that an empty list left open; refuses nodes that lack a required one."""
    for key, attr in definition.attrs.items():
        if key in values:
            continue
        if not attr.has_default:
            raise TypeError(f"'{definition.name}' Op needs the attribute '{key}' ({attr.kind}), which is not given.")
        values[key] = attr.default
