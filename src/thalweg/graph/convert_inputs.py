"""The argument values of one op, converted to tensors: Python values take the types of the tensors beside them.

Part of `graph.resolve`, which decides when it is needed. Knows no graph: the engine brings the conversion.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from thalweg.graph.constant_values import as_array
from thalweg.graph.definitions.attr_conversion import check_attr
from thalweg.graph.definitions.op_signature import ArgDef
from thalweg.graph.definitions.prepared_op import PreparedOp
from thalweg.graph.dtypes import DType


class TypedValue(Protocol):
    """The interface of a tensor of any engine for resolving."""

    @property
    def dtype(self) -> DType:
        """The type of its elements."""


T = TypeVar("T", bound=TypedValue)
T_co = TypeVar("T_co", bound=TypedValue, covariant=True)


class Convert(Protocol[T_co]):
    """How an engine makes one of its tensors of a value."""

    def __call__(
        self, value: Any, dtype: DType | None, name: str, preferred_dtype: DType | None, as_ref: bool, /
    ) -> T_co:
        """Returns a tensor of type `dtype`, or, if that is None, of `preferred_dtype` or whatever type fits `value`.

        Args:
            value: A tensor, a variable, a number, an array, a list of these, ...
            dtype: The type that the tensor must have.
            name: The name of the argument, for constants and error messages.
            preferred_dtype: A type to try first.
            as_ref: Whether the op changes the variable behind the tensor.

        Raises:
            TypeError: If the value has another type.
            ValueError: If no tensor can hold it.
        """


def convert_inputs(
    prepared: PreparedOp, inputs: tuple[Any, ...], values: dict[str, Any], convert: Convert[T], tensor_type: type[T]
) -> list[T]:
    """Converts the arguments of an op, and adds the attributes that they decide (types, lengths) to `values`."""
    _types_from_tensors(prepared, inputs, values, tensor_type)
    tensors: list[T] = []
    for (arg, _, _, _), value in zip(prepared.args, inputs, strict=True):
        if arg.number_attr is not None:
            tensors.extend(_same_type_list(prepared, arg, value, values, convert))
        elif arg.type_list_attr is not None:
            tensors.extend(_mixed_list(prepared, arg, value, values, convert))
        elif type(value) is tensor_type and value.dtype is values.get(arg.type_attr or "", arg.dtype):
            tensors.append(value)
        else:
            tensors.append(_one(prepared, arg, value, values, convert))
    return tensors


def check_inferred(prepared: PreparedOp, values: dict[str, Any], node: str) -> None:
    """Refuses inferred types that the op does not take."""
    for arg, type_attr, _, allowed in prepared.args:
        if type_attr is not None and allowed is not None and values.get(type_attr) not in allowed:
            dtype = values.get(type_attr)
            if dtype is not None:
                raise prepared.not_allowed(arg, dtype, node)
        if arg.type_list_attr is not None:
            check_attr(prepared.op_def, prepared.op_def.attrs[arg.type_list_attr], values[arg.type_list_attr])


def _types_from_tensors(
    prepared: PreparedOp, inputs: tuple[Any, ...], values: dict[str, Any], tensor_type: type[Any]
) -> None:
    """Lets the tensors and variables among the arguments decide the types, so that Python values can follow them."""
    for (arg, type_attr, _, _), value in zip(prepared.args, inputs, strict=True):
        if type_attr is None or type_attr in values:
            continue
        if type(value) is tensor_type:
            values[type_attr] = value.dtype.base_dtype
            continue
        candidates = value if arg.number_attr is not None and isinstance(value, (list, tuple)) else (value,)
        for candidate in candidates:
            dtype = getattr(candidate, "dtype", None)
            if type(dtype) is DType:
                values[type_attr] = dtype.base_dtype
                break


def _wanted_type(prepared: PreparedOp, arg: ArgDef, values: dict[str, Any]) -> tuple[DType | None, DType | None]:
    """The type that an argument must have, and the one to try first if any will do."""
    if arg.type_attr is None:
        return arg.dtype, None
    return values.get(arg.type_attr), prepared.op_def.attrs[arg.type_attr].default


def _one(prepared: PreparedOp, arg: ArgDef, value: Any, values: dict[str, Any], convert: Convert[T]) -> T:
    wanted, preferred = _wanted_type(prepared, arg, values)
    tensor = _converted(prepared, arg, value, wanted, preferred, arg.name, convert)
    if arg.type_attr is not None and wanted is None:
        values[arg.type_attr] = tensor.dtype.base_dtype
    return tensor


def _converted(
    prepared: PreparedOp,
    arg: ArgDef,
    value: Any,
    wanted: DType | None,
    preferred: DType | None,
    name: str,
    convert: Convert[T],
) -> T:
    try:
        return convert(value, wanted, name, preferred, arg.is_ref)
    except (TypeError, ValueError) as e:
        if value is None:
            raise ValueError(
                f"Tried to convert '{name}' to a tensor and failed. Error: None values not supported."
            ) from None
        found = _own_type(value) if wanted is not None else None
        if found is None or found is wanted:
            raise
        if arg.type_attr is None:
            raise prepared.wrong_fixed_type(arg, found, f" ({e})") from None
        assert wanted is not None
        raise prepared.mismatch(arg, found, wanted) from None


def _own_type(value: Any) -> DType | None:
    """The type that a value has when no other is asked for, or None if it has none: for error messages."""
    try:
        dtype = getattr(value, "dtype", None)
        return dtype.base_dtype if type(dtype) is DType else as_array(value)[1]
    except (TypeError, ValueError):
        return None


def _same_type_list(
    prepared: PreparedOp, arg: ArgDef, value: Any, values: dict[str, Any], convert: Convert[T]
) -> list[T]:
    assert arg.number_attr is not None
    op = prepared.op_def
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"Expected list for '{arg.name}' argument to '{op.name}' Op, not {value!r}.")
    known = values.get(arg.number_attr)
    if known is not None and known != len(value):
        raise ValueError(
            f"List argument '{arg.name}' to '{op.name}' Op with length {len(value)} must match length {known} "
            f"of attribute '{arg.number_attr}'."
        )
    minimum = op.attrs[arg.number_attr].minimum
    if minimum is not None and len(value) < minimum:
        raise ValueError(
            f"List argument '{arg.name}' to '{op.name}' Op with length {len(value)} shorter than minimum "
            f"length {minimum}."
        )
    values[arg.number_attr] = len(value)
    tensors: list[T] = []
    for i, item in enumerate(value):
        wanted, preferred = _wanted_type(prepared, arg, values)
        try:
            tensor = convert(item, wanted, f"{arg.name}_{i}", preferred, False)
        except (TypeError, ValueError):
            if item is None or (wanted is None or _own_type(item) in (None, wanted)):
                raise
            types = ", ".join((_own_type(v) or wanted).name for v in value)
            raise TypeError(
                f"Tensors in list passed to '{arg.name}' of '{op.name}' Op have types [{types}] that don't all match."
            ) from None
        if arg.type_attr is not None and wanted is None:
            values[arg.type_attr] = tensor.dtype.base_dtype
        tensors.append(tensor)
    return tensors


def _mixed_list(prepared: PreparedOp, arg: ArgDef, value: Any, values: dict[str, Any], convert: Convert[T]) -> list[T]:
    assert arg.type_list_attr is not None
    op = prepared.op_def
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"Expected list for '{arg.name}' argument to '{op.name}' Op, not {value!r}.")
    types = values.get(arg.type_list_attr)
    if types is not None and len(types) != len(value):
        raise ValueError(
            f"List argument '{arg.name}' to '{op.name}' Op with length {len(value)} must match the "
            f"{len(types)} types of attribute '{arg.type_list_attr}'."
        )
    tensors = [
        _converted(prepared, arg, item, types[i] if types is not None else None, None, f"{arg.name}_{i}", convert)
        for i, item in enumerate(value)
    ]
    values[arg.type_list_attr] = [tensor.dtype.base_dtype for tensor in tensors]
    return tensors
