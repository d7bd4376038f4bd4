"""AttrValue protobufs to attributes in canonical form (see `operation.Operation`), and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from thalweg.graph.definitions.op_signature import NameAttrList
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.messages import tensor_proto
from thalweg.graph.tensor_shape import TensorShape

_MAX_DEPTH: Final = 32  # Functions whose attributes are functions; deeper nesting is refused.


class AttrPlaceholder:
    """An attribute that stands for one of the enclosing function: only in the bodies of functions."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        """Takes the name of the function's attribute."""
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AttrPlaceholder) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"AttrPlaceholder({self.name!r})"


# Reading.

# The fields of AttrValue, and the kinds of their values in op definitions.
KIND_OF_FIELD: Final[dict[str, str]] = {
    "s": "string", "i": "int", "f": "float", "b": "bool", "type": "type", "shape": "shape", "tensor": "tensor",
    "func": "func",
}  # fmt: skip
_FIELD_OF_KIND: Final = {kind: field for field, kind in KIND_OF_FIELD.items()}


def _read_type(number: int) -> DType:
    try:
        return as_dtype(number)
    except TypeError:
        raise ValueError(f"the element type number {number} is unknown") from None


def read_shape(proto: Any) -> TensorShape:
    """The TensorShape of a TensorShapeProto.

    Raises:
        ValueError: If a dimension is below -1.
    """
    if proto.unknown_rank:
        return TensorShape._of(None)
    sizes = [dim.size for dim in proto.dim]
    for size in sizes:
        if size < -1:
            raise ValueError(f"the shape {sizes} has a dimension below -1")
    return TensorShape._of(tuple([None if size < 0 else size for size in sizes]))


def _read_func(proto: Any, depth: int) -> NameAttrList:
    if depth >= _MAX_DEPTH:
        raise ValueError(f"functions in attributes of functions are nested more than {_MAX_DEPTH} deep")
    return NameAttrList(proto.name, {name: read_any(value, depth + 1) for name, value in proto.attr.items()})


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "s": bytes,
    "i": int,
    "f": float,
    "b": bool,
    "type": _read_type,
    "shape": read_shape,
    "tensor": tensor_proto.read_only_array,
}


def read_any(value: Any, depth: int = 0) -> Any:
    """An attribute of any kind: what the AttrValue says it is. None if it says nothing.

    Raises:
        ValueError: If it holds an invalid type, shape or tensor.
    """
    field = value.WhichOneof("value")
    if field == "list":
        for name, items in value.list.ListFields():
            return _read_items(items, name.name, depth)
        return []
    if field == "func":
        return _read_func(value.func, depth)
    if field == "placeholder":
        return AttrPlaceholder(value.placeholder)
    if field is None:
        return None
    return _READERS[field](getattr(value, field))


def _read_items(items: Any, field: str, depth: int) -> list[Any]:
    if field == "func":
        return [_read_func(item, depth) for item in items]
    reader = _READERS[field]
    return [reader(item) for item in items]


def read_attr(value: Any, kind: str) -> Any:
    """An attribute of a known kind ('int', 'list(shape)', ...).

    Raises:
        ValueError: If it is of another kind, or holds an invalid value.
    """
    field = value.WhichOneof("value")
    if kind[:5] != "list(":
        if KIND_OF_FIELD.get(field or "") != kind:
            raise ValueError(f"AttrValue had value with type '{_kind_of(value, field)}' when '{kind}' expected")
        if field == "func":
            return _read_func(value.func, 0)
        result = _READERS[field](getattr(value, field))
        if field == "type" and result._is_ref_dtype:
            raise ValueError(f"AttrValue must not have reference type value of {result.name}")
        return result
    if field != "list":
        raise ValueError(f"AttrValue had value with type '{_kind_of(value, field)}' when '{kind}' expected")
    wanted = _FIELD_OF_KIND[kind[5:-1]]
    fields = value.list.ListFields()
    for found, _ in fields:
        if found.name != wanted:
            raise ValueError(
                f"AttrValue had value with type 'list({KIND_OF_FIELD[found.name]})' when '{kind}' expected"
            )
    if not fields:
        return []
    items = _read_items(fields[0][1], wanted, 0)
    if wanted == "type" and any(item._is_ref_dtype for item in items):
        raise ValueError("AttrValue must not have reference type values in a list of types")
    return items


def _kind_of(value: Any, field: str | None) -> str:
    if field is None:
        return "nothing"
    if field != "list":
        return KIND_OF_FIELD.get(field, field)
    names = [KIND_OF_FIELD[found.name] for found, _ in value.list.ListFields()]
    return f"list({', '.join(names)})"


# Writing.


def write_shape(proto: Any, shape: TensorShape) -> None:
    """Fills a TensorShapeProto."""
    dims = shape.dims_tuple
    if dims is None:
        proto.unknown_rank = True
    else:
        tensor_proto.set_dims(proto, dims)


def _write_tensor(proto: Any, array: np.ndarray[Any, Any]) -> None:
    dtype = as_dtype(array.dtype)
    proto.dtype = dtype.as_datatype_enum
    tensor_proto.set_dims(proto.tensor_shape, array.shape)
    tensor_proto.fill_tensor_proto(proto, array, dtype)


def _write_func(proto: Any, func: NameAttrList) -> None:
    proto.name = func.name
    for name, value in func.attrs.items():
        write_any(proto.attr[name], value)


_MESSAGE_WRITERS: Final[dict[str, Callable[[Any, Any], None]]] = {
    "shape": write_shape,
    "tensor": _write_tensor,
    "func": _write_func,
}


def write_attr(proto: Any, kind: str, value: Any) -> None:
    """Writes an attribute of a known kind into an AttrValue."""
    if kind == "type":
        proto.type = value.as_datatype_enum
    elif kind == "int":
        proto.i = value
    elif kind == "bool":
        proto.b = value
    elif kind == "float":
        proto.f = value
    elif kind == "string":
        proto.s = value
    elif kind[:5] == "list(":
        _write_list(proto.list, kind[5:-1], value)
    else:
        message = getattr(proto, kind)
        message.SetInParent()
        _MESSAGE_WRITERS[kind](message, value)


def _write_list(proto: Any, kind: str, values: list[Any]) -> None:
    proto.SetInParent()  # An empty list is a list.
    field = getattr(proto, _FIELD_OF_KIND[kind])
    writer = _MESSAGE_WRITERS.get(kind)
    if writer is not None:
        for value in values:
            writer(field.add(), value)
    elif kind == "type":
        field.extend([value.as_datatype_enum for value in values])
    else:
        field.extend(values)


def write_any(proto: Any, value: Any) -> None:
    """Writes an attribute that no op definition describes: its Python type tells what it is.

    Raises:
        TypeError: If the value is not in canonical form.
    """
    if isinstance(value, AttrPlaceholder):
        proto.placeholder = value.name
    elif isinstance(value, (list, tuple)):
        if value:
            _write_list(proto.list, _kind_of_value(value[0]), list(value))
        else:
            proto.list.SetInParent()
    elif value is not None:
        write_attr(proto, _kind_of_value(value), value)


def _kind_of_value(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    for kind, types in (
        ("int", int),
        ("float", float),
        ("string", (bytes, str)),
        ("type", DType),
        ("shape", TensorShape),
        ("tensor", np.ndarray),
        ("func", NameAttrList),
    ):
        if isinstance(value, types):
            return kind
    raise TypeError(f"An attribute cannot hold {value!r} of type {type(value).__name__}.")
