"""Strings: joining, cutting, case, hashing, numbers and bytes. Splitting: see string_split."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.dispatch import elementwise
from thalweg.graph.definitions.op_registry import define, export, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.platform.deprecation import deprecated_argument_lookup

_UNIT = "unit: {'BYTE', 'UTF8_CHAR'} = 'BYTE'"


def _join_shape(c: ShapeContext) -> TensorShape:
    """Scalars are repeated; all other inputs have one shape."""
    if any(shape.rank is None for shape in c.inputs()):
        return shapes.UNKNOWN
    found = [shape for shape in c.inputs() if shape.rank != 0]
    return shapes.merge_shapes(found) if found else shapes.SCALAR


define("StringJoin", "inputs: N * string -> output: string", "N: int >= 0, separator: string = ''", shape=_join_shape)
not_differentiable("StringJoin")


@export("string_join", "strings.join")
def string_join(inputs: Any, separator: str = "", name: str | None = None) -> Tensor:
    """Joins strings of several tensors of one shape (or scalars), element by element.

    Example:
        >>> tf.Session().run(tf.string_join([["a", "b"], "x"], separator="-")).tolist()
        [b'a-x', b'b-x']
    """
    return apply_one("StringJoin", inputs, separator=separator, name=name)


def _substr_shape(c: ShapeContext) -> TensorShape:
    position, length = c.input(1), c.input(2)
    if not position.is_compatible_with(length):
        raise ValueError(f"pos and len shapes must match: {shapes.short(position)} vs. {shapes.short(length)}")
    return shapes.broadcast_shapes(c.input(0), position)


define(
    "Substr", "input: string, pos: T, len: T -> output: string", f"T: {{int32, int64}}, {_UNIT}", shape=_substr_shape
)
define("StringLength", "input: string -> output: int32", _UNIT, shape=shapes.unchanged)
not_differentiable("Substr", "StringLength")


@export("substr", "strings.substr")
@elementwise
def substr(input: Any, pos: Any, len: Any, name: str | None = None, unit: str = "BYTE") -> Tensor:
    """Cuts `len` bytes (or characters) out of each string, from position `pos` on; negative ones count from the end.

    Args:
        input: Strings.
        pos: Positions, which broadcast against `input`.
        len: Lengths, of the shape of `pos`.
        name: The node's name.
        unit: 'BYTE' or 'UTF8_CHAR'.

    Returns:
        A Tensor of strings.
    """
    return apply_one("Substr", input, pos, len, unit=unit, name=name)


@export("strings.length")
@elementwise
def string_length(input: Any, name: str | None = None, unit: str = "BYTE") -> Tensor:
    """Returns the length of each string in bytes, or in characters of UTF-8."""
    return apply_one("StringLength", input, unit=unit, name=name)


for _op in ("StringLower", "StringUpper"):
    define(_op, "input: string -> output: string", "encoding: string = ''", shape=shapes.unchanged)
define("StringStrip", "input: string -> output: string", shape=shapes.unchanged)
not_differentiable("StringLower", "StringUpper", "StringStrip")


def map_strings(array: Any, function: Any) -> np.ndarray[Any, Any]:
    """Applies a function from bytes to bytes to each element."""
    array = np.asarray(array, dtype=object)
    out = np.empty(array.shape, dtype=object)
    for index in np.ndindex(array.shape):
        out[index] = function(array[index])
    return out


@export("strings.lower")
@elementwise
def string_lower(input: Any, encoding: str = "", name: str | None = None) -> Tensor:
    """Returns the strings in lower case: of ASCII letters only, or of all letters if `encoding` is 'utf-8'."""
    return apply_one("StringLower", input, encoding=encoding, name=name)


@export("strings.upper")
@elementwise
def string_upper(input: Any, encoding: str = "", name: str | None = None) -> Tensor:
    """Returns the strings in upper case: of ASCII letters only, or of all letters if `encoding` is 'utf-8'."""
    return apply_one("StringUpper", input, encoding=encoding, name=name)


@export("string_strip", "strings.strip")
@elementwise
def string_strip(input: Any, name: str | None = None) -> Tensor:
    """Removes white space from both ends of each string."""
    return apply_one("StringStrip", input, name=name)


define(
    "StringToNumber",
    "string_tensor: string -> output: out_type",
    "out_type: {float, double, int32, int64, uint32, uint64} = float",
    shape=shapes.unchanged,
)
define(
    "AsString",
    "input: T -> output: string",
    "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64, complex64, "
    "complex128, bool, string}, precision: int = -1, scientific: bool = false, shortest: bool = false, "
    "width: int = -1, fill: string = ''",
    shape=shapes.unchanged,
)
not_differentiable("StringToNumber", "AsString")


@export("string_to_number", "strings.to_number")
@elementwise
def string_to_number(
    string_tensor: Any = None, out_type: Any = dtypes.float32, name: str | None = None, input: Any = None
) -> Tensor:
    """Reads a number from each string; one that is not a number, or overflows an integer, is an error.

    Args:
        string_tensor: Strings; white space around the number is ignored.
        out_type: float32, float64, int32 or int64.
        name: The node's name.
        input: Another name of `string_tensor`.

    Returns:
        A Tensor of numbers.
    """
    string_tensor = deprecated_argument_lookup("input", input, "string_tensor", string_tensor)
    return apply_one("StringToNumber", string_tensor, out_type=out_type, name=name)


@export("as_string", "strings.as_string", "dtypes.as_string")
@elementwise
def as_string(
    input: Any, precision: int = -1, scientific: bool = False, shortest: bool = False, width: int = -1,
    fill: str = "", name: str | None = None,
) -> Tensor:  # fmt: skip
    """Writes each element as a string.

    Args:
        input: Numbers, booleans or strings.
        precision: Digits after the decimal point; 6 if negative.
        scientific: Whether to write `1.5e+00`.
        shortest: Whether to use the shorter of both notations.
        width: The least number of characters; -1 for no such rule.
        fill: What pads to `width`: ' ' or '0' in front, '-' for spaces behind, '+' for a sign.
        name: The node's name.

    Returns:
        A Tensor of strings.
    """
    return apply_one(
        "AsString", input, precision=precision, scientific=scientific, shortest=shortest, width=width, fill=fill,
        name=name,
    )  # fmt: skip


for _op, _input in (("StringToHashBucket", "string_tensor"), ("StringToHashBucketFast", "input")):
    define(_op, f"{_input}: string -> output: int64", "num_buckets: int >= 1", shape=shapes.unchanged)
define(
    "StringToHashBucketStrong",
    "input: string -> output: int64",
    "num_buckets: int >= 1, key: list(int)",
    shape=shapes.unchanged,
)
not_differentiable("StringToHashBucket", "StringToHashBucketFast", "StringToHashBucketStrong")


@export("string_to_hash_bucket", "strings.to_hash_bucket")
@elementwise
def string_to_hash_bucket(
    string_tensor: Any = None, num_buckets: int | None = None, name: str | None = None, input: Any = None
) -> Tensor:
    """Maps each string to one of `num_buckets` numbers, by the oldest of the hash functions."""
    string_tensor = deprecated_argument_lookup("input", input, "string_tensor", string_tensor)
    return apply_one("StringToHashBucket", string_tensor, num_buckets=num_buckets, name=name)


@export("string_to_hash_bucket_fast", "strings.to_hash_bucket_fast")
@elementwise
def string_to_hash_bucket_fast(input: Any, num_buckets: int, name: str | None = None) -> Tensor:
    """Maps each string to one of `num_buckets` numbers, the same on every machine; not safe against attackers."""
    return apply_one("StringToHashBucketFast", input, num_buckets=num_buckets, name=name)


@export("string_to_hash_bucket_strong", "strings.to_hash_bucket_strong")
@elementwise
def string_to_hash_bucket_strong(input: Any, num_buckets: int, key: Any, name: str | None = None) -> Tensor:
    """Maps each string to one of `num_buckets` numbers, by a hash that two secret integers decide (`key`)."""
    return apply_one("StringToHashBucketStrong", input, num_buckets=num_buckets, key=key, name=name)


define("EncodeBase64", "input: string -> output: string", "pad: bool = false", shape=shapes.unchanged)
define("DecodeBase64", "input: string -> output: string", shape=shapes.unchanged)
not_differentiable("EncodeBase64", "DecodeBase64")


@export("encode_base64", "io.encode_base64")
@elementwise
def encode_base64(input: Any, pad: bool = False, name: str | None = None) -> Tensor:
    """Encodes strings in web-safe base64, with `=` at the end if `pad`."""
    return apply_one("EncodeBase64", input, pad=pad, name=name)


@export("decode_base64", "io.decode_base64")
@elementwise
def decode_base64(input: Any, name: str | None = None) -> Tensor:
    """Decodes web-safe base64, with or without `=` at the end."""
    return apply_one("DecodeBase64", input, name=name)


def _decode_raw_shape(c: ShapeContext) -> TensorShape:
    return c.input(0).concatenate(shapes.ANY_VECTOR)


define(
    "DecodeRaw",
    "bytes: string -> output: out_type",
    "out_type: {half, float, double, int32, uint16, uint8, int16, int8, int64, complex64, complex128, bool, bfloat16}, "
    "little_endian: bool = true",
    shape=_decode_raw_shape,
)
not_differentiable("DecodeRaw")


@export("decode_raw", "io.decode_raw")
def decode_raw(
    input_bytes: Any = None,
    out_type: Any = None,
    little_endian: bool = True,
    name: str | None = None,
    bytes: Any = None,
) -> Tensor:
    """Takes the bytes of each string as numbers.

    Args:
        input_bytes: Strings, all of one length.
        out_type: The type of the numbers.
        little_endian: Whether the lowest byte comes first.
        name: The node's name.
        bytes: The old name of `input_bytes`.

    Returns:
        A Tensor with one more dimension than `input_bytes`.
    """
    input_bytes = deprecated_argument_lookup("input_bytes", input_bytes, "bytes", bytes)
    if out_type is None:
        raise ValueError("decode_raw needs out_type, the type of the numbers.")
    return apply_one("DecodeRaw", input_bytes, out_type=out_type, little_endian=little_endian, name=name)


define(
    "StringFormat",
    "inputs: T -> output: string",
    "T: list(type) >= 0, template: string = '%s', placeholder: string = '%s', summarize: int = 3",
    shape=shapes.scalar,
)
not_differentiable("StringFormat")


@export("strings.format")
def string_format(
    template: str, inputs: Any, placeholder: str = "{}", summarize: int = 3, name: str | None = None
) -> Tensor:
    """Puts tensors, as text, in the place of the placeholders of a template.

    Args:
        template: The text.
        inputs: One tensor, or a list with one per placeholder.
        placeholder: What stands for a tensor.
        summarize: How many elements to print at each end of a dimension; -1 for all.
        name: The scope's name.

    Returns:
        A scalar string Tensor.
    """
    inputs = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    count = template.count(placeholder)
    if count != len(inputs):
        raise ValueError(
            f"The template expects {count} tensors, but the inputs only has {len(inputs)}. Please ensure the number of "
            "placeholders in template matches inputs length."
        )
    with name_scope(name, "StringFormat", inputs):
        tensors = [convert(value) for value in inputs]
        return apply_one("StringFormat", tensors, template=template, placeholder=placeholder, summarize=summarize)
