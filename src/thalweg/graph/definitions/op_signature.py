"""The grammar of op declarations: arguments (`a: T, n: N * T -> z: T`) and attributes (`T: {float}, k: int = 0`)."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from thalweg.graph import dtypes
from thalweg.graph.dtypes import DType
from thalweg.graph.tensor_shape import TensorShape


class ArgDef(NamedTuple):
    """One input or output of an op.

    Exactly one of `dtype` (a fixed type), `type_attr` and `type_list_attr` is set; `number_attr` only with one of the
    first two.
    """

    name: str
    dtype: DType | None = None
    type_attr: str | None = None
    number_attr: str | None = None
    type_list_attr: str | None = None
    is_ref: bool = False


class AttrDef(NamedTuple):
    """One attribute of an op.

    Attributes:
        name: Its name.
        kind: 'bool', 'int', 'float', 'string', 'type', 'shape', 'tensor', 'func', or 'list(...)' of one of them.
        allowed: The DTypes, or byte strings, that it can take; None for any.
        minimum: Smallest int, or shortest list; None for any.
        has_default: Whether it can be left out.
        default: What it then is, in canonical form.
    """

    name: str
    kind: str
    allowed: tuple[Any, ...] | None = None
    minimum: int | None = None
    has_default: bool = False
    default: Any = None


class NameAttrList:
    """The value of a 'func' attribute: the name of a function, and attributes for it."""

    __slots__ = ("attrs", "name")

    def __init__(self, name: str, attrs: dict[str, Any] | None = None) -> None:
        """Keeps both."""
        self.name = name
        self.attrs = attrs or {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NameAttrList) and (self.name, self.attrs) == (other.name, other.attrs)

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"NameAttrList({self.name!r}, {self.attrs!r})"


_SCALAR_KINDS: Final = frozenset(("bool", "int", "float", "string", "type", "shape", "tensor", "func"))

# Groups of types as TensorFlow's registrations name them.
_REAL_NUMBERS: Final = "float double int32 uint8 int16 int8 int64 bfloat16 uint16 half uint32 uint64"
TYPE_SETS: Final[dict[str, str]] = {
    "numbertype": "float double int32 uint8 int16 int8 complex64 int64 qint8 quint8 qint32 bfloat16 qint16 quint16 "
    "uint16 complex128 half uint32 uint64",
    "numbers": "float double int32 uint8 int16 int8 complex64 int64 qint8 quint8 qint32 bfloat16 qint16 quint16 "
    "uint16 complex128 half uint32 uint64",
    "realnumbertype": _REAL_NUMBERS,
    "realnumbers": _REAL_NUMBERS,
    "quantizedtype": "qint8 quint8 qint32 qint16 quint16",
    "floattype": "bfloat16 half float double",
    "complextype": "complex64 complex128",
    "indextype": "int32 int64",
}

_OPEN: Final = {"{": "}", "[": "]", "(": ")"}


def split_top_level(text: str, separator: str = ",") -> list[str]:
    """Splits at separators outside of brackets and quotes; drops empty pieces at the ends."""
    if not text.strip():
        return []
    if not any(c in text for c in "{[('\""):
        return [piece.strip() for piece in text.split(separator)]
    pieces: list[str] = []
    depth, quote, start = 0, "", 0
    for i, c in enumerate(text):
        if quote:
            if c == quote:
                quote = ""
        elif c in "'\"":
            quote = c
        elif c in _OPEN:
            depth += 1
        elif c in _OPEN.values():
            depth -= 1
        elif c == separator and depth == 0:
            pieces.append(text[start:i].strip())
            start = i + 1
    pieces.append(text[start:].strip())
    return pieces


def parse_attrs(op: str, text: str) -> dict[str, AttrDef]:
    """Parses an op's attributes.

    Raises:
        ValueError: If the text does not follow the grammar.
    """
    attrs: dict[str, AttrDef] = {}
    for piece in split_top_level(text):
        name, colon, spec = piece.partition(":")
        name = name.strip()
        if not colon or name in attrs:
            raise ValueError(f"Op '{op}': cannot read the attribute '{piece}' in '{text}'.")
        try:
            attrs[name] = _parse_attr(name, spec.strip())
        except (ValueError, TypeError, KeyError) as e:
            raise ValueError(f"Op '{op}': cannot read the attribute '{piece}': {e}") from e
    return attrs


def _parse_attr(name: str, spec: str) -> AttrDef:
    default_text = None
    parts = _split_default(spec)
    if parts is not None:
        spec, default_text = parts
    minimum = None
    if ">=" in spec and "{" not in spec.partition(">=")[2]:
        spec, _, minimum_text = spec.partition(">=")
        minimum, spec = int(minimum_text), spec.strip()
    is_list = spec.startswith("list(") and spec.endswith(")")
    element = spec[5:-1].strip() if is_list else spec
    allowed = None
    if element.startswith("{"):
        allowed = _allowed_values(element[1:-1])
        element = "string" if isinstance(allowed[0], bytes) else "type"
    elif element in TYPE_SETS:
        allowed, element = _allowed_values(element), "type"
    if element not in _SCALAR_KINDS:
        raise ValueError(f"'{element}' is not an attribute type")
    kind = f"list({element})" if is_list else element
    if default_text is None:
        return AttrDef(name, kind, allowed, minimum)
    return AttrDef(name, kind, allowed, minimum, True, _default_value(default_text, element, is_list))


def _split_default(spec: str) -> tuple[str, str] | None:
    """Cuts at the `=` that is not part of `>=` and stands outside of quotes and brackets."""
    depth, quote = 0, ""
    for i, c in enumerate(spec):
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in _OPEN:
            depth += 1
        elif c in _OPEN.values():
            depth -= 1
        elif c == "=" and depth == 0 and spec[i - 1] != ">":
            return spec[:i].strip(), spec[i + 1 :].strip()
    return None


def _allowed_values(text: str) -> tuple[Any, ...]:
    values: dict[Any, None] = {}  # An ordered set: type sets may overlap.
    for item in split_top_level(text):
        if item[0] in "'\"":
            values[item[1:-1].encode()] = None
        else:
            for type_name in TYPE_SETS.get(item, item).split():
                values[dtypes.as_dtype(type_name)] = None
    return tuple(values)


def _default_value(text: str, element: str, is_list: bool) -> Any:
    if is_list:
        if not (text.startswith("[") and text.endswith("]")):
            raise ValueError(f"the default of a list must stand in brackets, not {text!r}")
        return [_default_value(item, element, False) for item in split_top_level(text[1:-1])]
    if element == "bool":
        return {"true": True, "false": False}[text]
    if element == "int":
        return int(text)
    if element == "float":
        return float(text)
    if element == "string":
        if text[0] not in "'\"" or text[-1] != text[0]:
            raise ValueError(f"a string stands in quotes, not {text!r}")
        return text[1:-1].encode()
    if element == "type":
        return dtypes.as_dtype(text)
    if element == "shape":
        if text == "unknown":
            return TensorShape._of(None)
        sizes = [int(size.replace("?", "-1")) for size in split_top_level(text[1:-1])]
        return TensorShape._of(tuple(None if size < 0 else size for size in sizes))
    if element == "tensor":  # A vector: uint8[255, 0, 0]
        name, _, values = text.partition("[")
        array = np.array([float(v) for v in split_top_level(values[:-1])], dtypes.as_dtype(name).as_numpy_dtype)
        array.flags.writeable = False
        return array
    raise ValueError(f"an attribute of type '{element}' takes no default")


def parse_signature(op: str, text: str, attrs: dict[str, AttrDef]) -> tuple[tuple[ArgDef, ...], tuple[ArgDef, ...]]:
    """Parses an op's inputs and outputs.

    Raises:
        ValueError: If the text does not follow the grammar, or names an attribute that is not declared.
    """
    inputs, _, outputs = text.partition("->")
    return _parse_args(op, inputs, attrs), _parse_args(op, outputs, attrs)


def _parse_args(op: str, text: str, attrs: dict[str, AttrDef]) -> tuple[ArgDef, ...]:
    return tuple([_parse_arg(op, piece, attrs) for piece in split_top_level(text)])


def _parse_arg(op: str, text: str, attrs: dict[str, AttrDef]) -> ArgDef:
    name, colon, spec = text.partition(":")
    name, spec = name.strip(), spec.strip()
    if not colon or not name.isidentifier():
        raise ValueError(f"Op '{op}': cannot read the argument '{text}'; expected 'name: type'.")
    is_ref = spec.startswith("Ref(") and spec.endswith(")")
    if is_ref:
        spec = spec[4:-1].strip()
    number_attr = None
    if "*" in spec:
        number_attr, _, spec = (part.strip() for part in spec.partition("*"))
        if number_attr not in attrs or attrs[number_attr].kind != "int":
            raise ValueError(f"Op '{op}': '{text}' needs an int attribute '{number_attr}', which is not declared.")
    attr = attrs.get(spec)
    if attr is not None and attr.kind == "type":
        return ArgDef(name, type_attr=spec, number_attr=number_attr, is_ref=is_ref)
    if attr is not None and attr.kind == "list(type)" and number_attr is None:
        return ArgDef(name, type_list_attr=spec, is_ref=is_ref)
    if attr is not None:
        raise ValueError(f"Op '{op}': the argument '{text}' needs a type; attribute '{spec}' is a {attr.kind}.")
    try:
        dtype = dtypes.as_dtype(spec)
    except TypeError:
        raise ValueError(
            f"Op '{op}': the argument '{text}' names neither a type nor a declared attribute (there are: "
            f"{', '.join(attrs)})."
        ) from None
    return ArgDef(name, dtype=dtype, number_attr=number_attr, is_ref=is_ref)
