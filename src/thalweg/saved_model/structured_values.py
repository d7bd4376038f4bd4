"""StructuredValue messages: how SavedModels of TensorFlow 2 write nested values and descriptions of tensors."""

from __future__ import annotations

import collections
import functools
from typing import Any

from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.messages.attr_values import read_shape, write_shape
from thalweg.graph.tensor_shape import TensorShape
from thalweg.graph.tensor_spec import TensorSpec


class OtherSpec:
    """The description of an argument that is no tensor: a variable, a ragged tensor, an object of the program."""

    def __init__(self, name: str) -> None:
        """Takes the name of its class."""
        self.name = name

    def __repr__(self) -> str:
        return self.name


def decode(message: Any) -> Any:
    """The value that a StructuredValue stands for."""
    kind = message.WhichOneof("kind")
    if kind in (None, "none_value"):
        return None
    if kind in _PLAIN:
        return getattr(message, kind)
    if kind == "list_value":
        return [decode(value) for value in message.list_value.values]
    if kind == "tuple_value":
        return tuple(decode(value) for value in message.tuple_value.values)
    if kind == "dict_value":
        return {key: decode(value) for key, value in message.dict_value.fields.items()}
    if kind == "named_tuple_value":
        names = tuple(pair.key for pair in message.named_tuple_value.values)
        return _named_tuple(message.named_tuple_value.name, names)(
            *(decode(pair.value) for pair in message.named_tuple_value.values)
        )
    if kind == "tensor_shape_value":
        return read_shape(message.tensor_shape_value)
    if kind == "tensor_dtype_value":
        return as_dtype(message.tensor_dtype_value)
    if kind in ("tensor_spec_value", "bounded_tensor_spec_value"):
        spec = getattr(message, kind)
        return TensorSpec(read_shape(spec.shape), as_dtype(spec.dtype), spec.name or None)
    return OtherSpec(message.type_spec_value.type_spec_class_name if kind == "type_spec_value" else kind)


_PLAIN = ("float64_value", "int64_value", "string_value", "bool_value")


@functools.cache
def _named_tuple(name: str, fields: tuple[str, ...]) -> Any:
    return collections.namedtuple(name, fields, rename=True)


def encode(message: Any, value: Any) -> None:
    """Writes a value into an empty StructuredValue.

    Raises:
        TypeError: If there is no way to write it.
    """
    if value is None:
        message.none_value.SetInParent()
    elif isinstance(value, TensorSpec):
        message.tensor_spec_value.name = value.name or ""
        write_shape(message.tensor_spec_value.shape, value.shape)
        message.tensor_spec_value.dtype = value.dtype.as_datatype_enum
    elif isinstance(value, DType):
        message.tensor_dtype_value = value.as_datatype_enum
    elif isinstance(value, TensorShape):
        write_shape(message.tensor_shape_value, value)
    elif type(value) in _FIELDS:
        setattr(message, _FIELDS[type(value)], value)
    elif isinstance(value, dict) and all(type(key) is str for key in value):
        message.dict_value.SetInParent()
        for key, item in value.items():
            encode(message.dict_value.fields[key], item)
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        message.named_tuple_value.name = type(value).__name__
        for key, item in zip(value._fields, value, strict=True):
            pair = message.named_tuple_value.values.add(key=key)
            encode(pair.value, item)
    elif isinstance(value, (list, tuple)):
        items = message.list_value if isinstance(value, list) else message.tuple_value
        items.SetInParent()
        for item in value:
            encode(items.values.add(), item)
    else:
        raise TypeError(f"A SavedModel cannot hold {value!r} as an argument or result of a function.")


_FIELDS = {bool: "bool_value", int: "int64_value", float: "float64_value", str: "string_value"}
