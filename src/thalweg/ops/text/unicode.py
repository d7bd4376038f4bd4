"""Strings as sequences of Unicode code points: from one encoding to another, to code points, and back."""

from __future__ import annotations

import codecs
import functools
import itertools
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from thalweg.graph.apply import apply_one
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, not_differentiable, python_kernel
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import as_dtype
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.sparse.kernel_arrays import require
from thalweg.ops.text.strings import map_strings

_ERRORS = "errors: {'strict', 'replace', 'ignore'} = 'replace', replacement_char: int = 65533"
_OUTPUT = "output_encoding: {'UTF-8', 'UTF-16-BE', 'UTF-32-BE'}"
_SPLITS = "Tsplits: {int32, int64} = int64"
_CONTROL = "replace_control_characters: bool = false"


def _decoded_shape(c: ShapeContext) -> list[TensorShape]:
    count = shapes.num_elements(c.dims(0))
    splits = TensorShape._of((None if count is None else count + 1,))
    return [splits, *[shapes.ANY_VECTOR] * (c.num_outputs - 1)]


def _encoded_shape(c: ShapeContext) -> TensorShape:
    shapes.with_rank(c.input(0), 1)
    dims = shapes.with_rank(c.input(1), 1).dims_tuple
    assert dims is not None
    if dims[0] == 0:
        raise ValueError("input_splits must have at least one element")
    return TensorShape._of((None if dims[0] is None else dims[0] - 1,))


define(
    "UnicodeTranscode", "input: string -> output: string", f"input_encoding: string, {_OUTPUT}, {_ERRORS}, {_CONTROL}",
    shape=shapes.unchanged,
)  # fmt: skip
define(
    "UnicodeDecode", "input: string -> row_splits: Tsplits, char_values: int32",
    f"input_encoding: string, {_ERRORS}, {_CONTROL}, {_SPLITS}", shape=_decoded_shape,
)  # fmt: skip
define(
    "UnicodeDecodeWithOffsets",
    "input: string -> row_splits: Tsplits, char_values: int32, char_to_byte_starts: int64",
    f"input_encoding: string, {_ERRORS}, {_CONTROL}, {_SPLITS}",
    shape=_decoded_shape,
)
define(
    "UnicodeEncode", "input_values: int32, input_splits: Tsplits -> output: string",
    f"{_ERRORS}, {_OUTPUT}, {_SPLITS}", shape=_encoded_shape,
)  # fmt: skip
define("UnicodeScript", "input: int32 -> output: int32", shape=shapes.unchanged)
not_differentiable("UnicodeTranscode", "UnicodeDecode", "UnicodeDecodeWithOffsets", "UnicodeEncode", "UnicodeScript")

_UNKNOWN_SCRIPT = 103


class _Decoder:
    """From bytes to (code point, offset of its first byte); invalid bytes are replaced, dropped or refused."""

    def __init__(self, attrs: dict[str, Any]) -> None:
        name = attrs["input_encoding"].decode("ascii", "replace")
        try:
            codec = codecs.lookup(name)
        except LookupError:
            codec = None
        # Python's registry also holds codecs that are no encodings of text, such as compression.
        require(
            codec is not None and getattr(codec, "_is_text_encoding", False),
            f"Could not create converter for input encoding: {name}",
        )
        self._encoding = name
        self._policy = attrs["errors"]
        self._replacement = _checked_replacement(attrs)
        self._replace_control = attrs["replace_control_characters"]

    def __call__(self, data: bytes) -> Iterator[tuple[int, int]]:
        start = 0
        while start < len(data):
            try:
                text, bad = data[start:].decode(self._encoding), None
            except UnicodeDecodeError as e:
                text, bad = data[start : start + e.start].decode(self._encoding), (start + e.start, start + e.end)
            encoder = codecs.getincrementalencoder(self._encoding)()
            for character in text:
                code = ord(character)
                if code < 32 and self._replace_control:
                    yield from self._handle_invalid(start)
                else:
                    yield code, start
                start += len(encoder.encode(character))
            if bad is None:
                return
            require(self._policy != b"strict", "Invalid formatting on input string")
            yield from self._handle_invalid(bad[0])
            start = bad[1]

    def _handle_invalid(self, place: int) -> Iterator[tuple[int, int]]:
        if self._policy != b"ignore":
            yield self._replacement, place


def _checked_replacement(attrs: dict[str, Any]) -> int:
    code = int(attrs["replacement_char"])
    require(_is_character(code), f"replacement_char must be a Unicode code point, got {code}")
    return code


def _is_character(code: int) -> bool:
    return 0 <= code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF


@python_kernel("UnicodeTranscode")
def _transcode_kernel(inputs: list[Any], attrs: dict[str, Any]) -> Any:
    decode, encoding = _Decoder(attrs), attrs["output_encoding"].decode()
    return map_strings(inputs[0], lambda s: "".join(chr(code) for code, _ in decode(s)).encode(encoding))


def _decode(inputs: list[Any], attrs: dict[str, Any]) -> list[Any]:
    decode = _Decoder(attrs)
    splits, codes, starts = [0], [], []
    for data in np.asarray(inputs[0], dtype=object).ravel():
        for code, start in decode(data):
            codes.append(code)
            starts.append(start)
        splits.append(len(codes))
    kind = as_dtype(attrs["Tsplits"]).as_numpy_dtype
    return [np.array(splits, kind), np.array(codes, np.int32), np.array(starts, np.int64)]


@python_kernel("UnicodeDecode")
def _decode_kernel(inputs: list[Any], attrs: dict[str, Any]) -> Any:
    return _decode(inputs, attrs)[:2]


@python_kernel("UnicodeDecodeWithOffsets")
def _decode_with_offsets_kernel(inputs: list[Any], attrs: dict[str, Any]) -> Any:
    return _decode(inputs, attrs)


def check_splits(splits: Any, total: int) -> list[int]:
    """The ends of rows as numbers, after the check that they ascend from 0 to `total`."""
    require(splits.ndim == 1 and splits.size > 0, f"splits must be a vector that is not empty, got {splits.shape}")
    ends = [int(end) for end in splits]
    require(ends[0] == 0, f"The first value in splits must be 0, got {ends[0]}")
    require(all(a <= b for a, b in itertools.pairwise(ends)), "The values in splits must not decrease")
    require(ends[-1] == total, f"Invalid split value {ends[-1]}, must be {total}: the last one is the number of values")
    return ends


@python_kernel("UnicodeEncode")
def _encode_kernel(inputs: list[Any], attrs: dict[str, Any]) -> Any:
    codes, splits = inputs
    require(codes.ndim == 1, f"input_values must be a vector, got shape {list(codes.shape)}")
    ends = check_splits(splits, codes.size)
    policy, encoding = attrs["errors"], attrs["output_encoding"].decode()
    replacement = _checked_replacement(attrs)
    characters: list[str] = []
    for code in codes.tolist():
        valid = _is_character(code)
        require(valid or policy != b"strict", f"Code point is out of range for Unicode, or a noncharacter: {code}")
        characters.append(chr(code) if valid else "" if policy == b"ignore" else chr(replacement))
    out = np.empty(len(ends) - 1, dtype=object)
    for row in range(len(ends) - 1):
        out[row] = "".join(characters[ends[row] : ends[row + 1]]).encode(encoding)
    return out


@export("strings.unicode_transcode")
def unicode_transcode(
    input: Any, input_encoding: str, output_encoding: str, errors: str = "replace", replacement_char: int = 65533,
    replace_control_characters: bool = False, name: str | None = None,
) -> Tensor:  # fmt: skip
    r"""Returns strings in another encoding.

    Args:
        input: Strings.
        input_encoding: Their encoding, such as 'UTF-8' or 'latin1'.
        output_encoding: 'UTF-8', 'UTF-16-BE' or 'UTF-32-BE'.
        errors: What to do with bytes that are no text: 'replace' them, 'ignore' them, or fail ('strict').
        replacement_char: The code point to replace them by.
        replace_control_characters: Whether the characters below 32 count as errors to replace.
        name: The node's name.

    Returns:
        A Tensor of the shape of `input`.

    Example:
        >>> with tf.Session() as s:
        ...     s.run(tf.strings.unicode_transcode("hé", "UTF-8", "UTF-16-BE"))
        b'\x00h\x00\xe9'
    """
    return apply_one(
        "UnicodeTranscode", input, input_encoding=input_encoding, output_encoding=output_encoding, errors=errors,
        replacement_char=replacement_char, replace_control_characters=replace_control_characters, name=name,
    )  # fmt: skip


@functools.cache
def _script_ranges() -> tuple[Any, Any, Any]:
    """First and last code points of all ranges, in order, and the number of the script of each."""
    with open(os.path.join(os.path.dirname(__file__), "unicode_scripts.txt"), encoding="utf-8") as file:
        rows = [line.split() for line in file if not line.startswith("#")]
    found = sorted(
        (int(first, 16), int(last or first, 16), int(number))
        for _, number, *ranges in rows
        for first, _, last in (each.partition("-") for each in ranges)
    )
    starts, ends, numbers = np.array(found, np.int32).T
    return starts, ends, numbers


@python_kernel("UnicodeScript")
def _script_kernel(inputs: list[Any], attrs: dict[str, Any]) -> Any:
    codes = np.asarray(inputs[0])
    starts, ends, numbers = _script_ranges()
    place = np.maximum(np.searchsorted(starts, codes, side="right") - 1, 0)
    inside = (codes >= starts[place]) & (codes <= ends[place])
    known = np.where(inside, numbers[place], _UNKNOWN_SCRIPT)
    return np.where((codes < 0) | (codes > 0x10FFFF), -1, known).astype(np.int32)


@export("strings.unicode_script")
def unicode_script(input: Any, name: str | None = None) -> Tensor:
    """Returns the script of code points, by the numbers of ICU's UScriptCode: 25 is Latin, -1 no code point.

    Example:
        >>> with tf.Session() as s:
        ...     print(s.run(tf.strings.unicode_script([65, 0x5D0, -1])))
        [25 19 -1]
    """
    return apply_one("UnicodeScript", input, name=name)
