"""Attribute values in canonical form: what an op function passes, checked and converted to what a node keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from thalweg.graph import constant_values
from thalweg.graph.definitions.op_registry import OpDef
from thalweg.graph.definitions.op_signature import AttrDef, NameAttrList
from thalweg.graph.dtypes import as_dtype
from thalweg.graph.tensor_shape import TensorShape

Converter = Callable[[OpDef, AttrDef, Any], Any]
_Number = TypeVar("_Number", int, float)
_LEAST_INT, _LARGEST_INT = -(2**63), 2**63 - 1
_MOST_SHOWN = 200


def _bool(op: OpDef, attr: AttrDef, value: Any) -> bool:
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise _wrong(op, attr, "bool", value)


def _int(op: OpDef, attr: AttrDef, value: Any) -> int:
    found = value if type(value) is int else _number(op, attr, int, value)
    if not _LEAST_INT <= found <= _LARGEST_INT:
        raise ValueError(f"Argument '{attr.name}' of '{op.name}' Op is out of range: {_shown(value)} is no int64.")
    return found


def _float(op: OpDef, attr: AttrDef, value: Any) -> float:
    return _number(op, attr, float, value)


def _number(op: OpDef, attr: AttrDef, kind: type[_Number], value: Any) -> _Number:
    if isinstance(value, (str, bytes)):
        raise _wrong(op, attr, kind.__name__, value)
    try:
        return kind(value)
    except Exception:  # Whatever the object's own conversion raises: NumPy's masked value has an error of its own.
        raise _wrong(op, attr, kind.__name__, value) from None


def _string(op: OpDef, attr: AttrDef, value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    raise _wrong(op, attr, "string", value)


def _type(op: OpDef, attr: AttrDef, value: Any) -> Any:
    try:
        return as_dtype(value).base_dtype
    except TypeError:
        raise _wrong(op, attr, "DataType", value) from None


def _shape(op: OpDef, attr: AttrDef, value: Any) -> TensorShape:
    if isinstance(value, TensorShape):
        return value
    try:
        if isinstance(value, (list, tuple)):
            value = [None if type(d) is int and d == -1 else d for d in value]
        return TensorShape(value)
    except (TypeError, ValueError) as e:
        raise type(e)(
            f"Error converting {attr.name} of '{op.name}' Op (value {value!r}) to a TensorShape: {e}"
        ) from None


def _no_reader(message: Any) -> np.ndarray[Any, Any]:
    raise NotImplementedError("No reader of TensorProtos is installed: see set_tensor_reader.")


_read_tensor_message: Callable[[Any], np.ndarray[Any, Any]] = _no_reader


def set_tensor_reader(reader: Callable[[Any], np.ndarray[Any, Any]]) -> None:
    """Installs the reader of TensorProtos that are given as attributes: graph.messages is a higher layer."""
    global _read_tensor_message
    _read_tensor_message = reader


def _tensor(op: OpDef, attr: AttrDef, value: Any) -> np.ndarray[Any, Any]:
    if type(value) is np.ndarray and not value.flags.writeable:
        return value
    if hasattr(value, "tensor_content"):
        value = _read_tensor_message(value)
    return constant_values.as_array(value)[0]


def _func(op: OpDef, attr: AttrDef, value: Any) -> NameAttrList:
    if isinstance(value, NameAttrList):
        return value
    name = value if isinstance(value, str) else getattr(value, "name", None)
    if not isinstance(name, str):
        raise _wrong(op, attr, "function", value)
    return NameAttrList(name)


CONVERTERS: dict[str, Converter] = {
    "bool": _bool,
    "int": _int,
    "float": _float,
    "string": _string,
    "type": _type,
    "shape": _shape,
    "tensor": _tensor,
    "func": _func,
}


def convert_attr(op: OpDef, attr: AttrDef, value: Any) -> Any:
    """Converts the value of an attribute of any kind, lists included.

    Raises:
        TypeError: If it is of another kind.
    """
    if not attr.kind.startswith("list("):
        return CONVERTERS[attr.kind](op, attr, value)
    if isinstance(value, TensorShape) and attr.kind == "list(int)":
        value = value.as_list()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"Expected list for '{attr.name}' argument to '{op.name}' Op, not {value!r}.")
    converter = CONVERTERS[attr.kind[5:-1]]
    return [converter(op, attr, item) for item in value]


def check_attr(op: OpDef, attr: AttrDef, value: Any) -> None:
    """Checks an attribute in canonical form against its allowed values and minimum.

    Raises:
        TypeError: For a type that is not allowed.
        ValueError: For a string that is not allowed, a number that is too small, or a list that is too short.
    """
    if attr.minimum is not None:
        if isinstance(value, list):
            if len(value) < attr.minimum:
                raise ValueError(
                    f"Attr '{attr.name}' of '{op.name}' Op passed list of length {len(value)} less than "
                    f"minimum {attr.minimum}."
                )
        elif value < attr.minimum:
            raise ValueError(f"Attr '{attr.name}' of '{op.name}' Op passed {value} less than minimum {attr.minimum}.")
    if attr.allowed is None:
        return
    for item in value if isinstance(value, list) else (value,):
        if item in attr.allowed:
            continue
        if isinstance(item, bytes):
            allowed = '", "'.join(choice.decode() for choice in attr.allowed)
            raise ValueError(
                f"Attr '{attr.name}' of '{op.name}' Op passed string '{item.decode(errors='replace')}' not "
                f'in: "{allowed}".'
            )
        raise TypeError(
            f"Value passed to parameter '{attr.name}' has DataType {item.name} not in list of allowed values: "
            f"{', '.join(choice.name for choice in attr.allowed)} (op '{op.name}')"
        )


def _wrong(op: OpDef, attr: AttrDef, expected: str, value: Any) -> TypeError:
    return TypeError(f"Expected {expected} for argument '{attr.name}' of '{op.name}' Op not {_shown(value)}.")


def _shown(value: Any) -> str:
    text = f"{value!r}"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
