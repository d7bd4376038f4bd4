"""Strings to and from rows of characters, bytes and n-grams: ragged, unless one string gives one row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import thalweg
from thalweg.graph.definitions.op_registry import export
from thalweg.ragged.ragged_tensor import RaggedTensor

tf: Any = thalweg  # The public names are bound at run time.


def _by_string(input: Any, split: Callable[[Any], tuple[list[Any], Any]]) -> list[Any]:
    """Applies a function of vectors of strings, which returns flat values and the splits of rows, to any strings."""
    if isinstance(input, RaggedTensor):
        return [input.with_flat_values(each) for each in _by_string(input.flat_values, split)]
    input = tf.convert_to_tensor(input, tf.string, name="input")
    rank = input.shape.ndims
    if rank is None:
        raise ValueError("Rank of `input` must be statically known.")
    if rank == 0:
        return split(tf.reshape(input, [1]))[0]
    if rank > 1:
        return _by_string(RaggedTensor.from_tensor(input, ragged_rank=rank - 1), split)
    values, splits = split(input)
    return [RaggedTensor.from_row_splits(each, splits, validate=False) for each in values]


def _decode(op_type: str, encoding: str, errors: str, replacement_char: int, control: bool) -> Any:
    def split(strings: Any) -> tuple[list[Any], Any]:
        found = getattr(tf.raw_ops, op_type)(
            input=strings, input_encoding=encoding, errors=errors, replacement_char=replacement_char,
            replace_control_characters=control,
        )  # fmt: skip
        return list(found[1:]), found.row_splits

    return split


@export("strings.unicode_decode")
def unicode_decode(
    input: Any, input_encoding: str, errors: str = "replace", replacement_char: int = 65533,
    replace_control_characters: bool = False, name: str | None = None,
) -> Any:  # fmt: skip
    """Returns the code points of strings: a vector of one string, a RaggedTensor of several.

    Args:
        input: Strings of any rank.
        input_encoding: Their encoding, such as 'UTF-8' or 'latin1'.
        errors: What to do with bytes that are no text: 'replace' them, 'ignore' them, or fail ('strict').
        replacement_char: The code point to replace them by.
        replace_control_characters: Whether the characters below 32 count as errors to replace.
        name: A name for the nodes.

    Example:
        >>> with tf.Session() as s:
        ...     s.run(tf.strings.unicode_decode(["hé", "a"], "UTF-8")).to_list()
        [[104, 233], [97]]
    """
    options = (input_encoding, errors, replacement_char, replace_control_characters)
    with tf.name_scope(name, "UnicodeDecode", [input]):
        return _by_string(input, _decode("UnicodeDecode", *options))[0]


@export("strings.unicode_decode_with_offsets")
def unicode_decode_with_offsets(
    input: Any, input_encoding: str, errors: str = "replace", replacement_char: int = 65533,
    replace_control_characters: bool = False, name: str | None = None,
) -> Any:  # fmt: skip
    """Returns the code points of strings, and the place of the first byte of each; see `unicode_decode`."""
    options = (input_encoding, errors, replacement_char, replace_control_characters)
    with tf.name_scope(name, "UnicodeDecodeWithOffsets", [input]):
        codes, starts = _by_string(input, _decode("UnicodeDecodeWithOffsets", *options))
        return codes, starts


@export("strings.unicode_encode")
def unicode_encode(
    input: Any, output_encoding: str, errors: str = "replace", replacement_char: int = 65533, name: str | None = None
) -> Any:
    """Returns rows of code points, the innermost dimension, as strings; see `unicode_decode`."""
    with tf.name_scope(name, "UnicodeEncode", [input]):
        if not isinstance(input, RaggedTensor):
            codes = tf.convert_to_tensor(input, tf.int32)
            if codes.shape.ndims == 1:
                whole = tf.stack([tf.constant(0, tf.int64), tf.size(codes, out_type=tf.int64)])
                return tf.reshape(_encoded(codes, whole, output_encoding, errors, replacement_char), [])
            if not codes.shape.ndims:
                raise ValueError(f"input must have at least one dimension, and a known rank; got {codes.shape}.")
            input = RaggedTensor.from_tensor(codes, ragged_rank=codes.shape.ndims - 1)
        if isinstance(input.values, RaggedTensor) or input.values.shape.ndims > 1:
            return input.with_values(unicode_encode(input.values, output_encoding, errors, replacement_char))
        return _encoded(input.values, input.row_splits, output_encoding, errors, replacement_char)


def _encoded(codes: Any, splits: Any, encoding: str, errors: str, replacement_char: int) -> Any:
    return tf.raw_ops.UnicodeEncode(
        input_values=codes, input_splits=splits, output_encoding=encoding, errors=errors,
        replacement_char=replacement_char,
    )  # fmt: skip


@export("strings.unicode_split")
def unicode_split(
    input: Any, input_encoding: str, errors: str = "replace", replacement_char: int = 65533, name: str | None = None
) -> Any:
    """Returns the characters of strings, each as a string; see `unicode_decode`.

    Example:
        >>> with tf.Session() as s:
        ...     s.run(tf.strings.unicode_split(["ab", "c"], "UTF-8")).to_list()
        [[b'a', b'b'], [b'c']]
    """
    return unicode_split_with_offsets(input, input_encoding, errors, replacement_char, name)[0]


@export("strings.unicode_split_with_offsets")
def unicode_split_with_offsets(
    input: Any, input_encoding: str, errors: str = "replace", replacement_char: int = 65533, name: str | None = None
) -> Any:
    """Returns the characters of strings, and the place of the first byte of each; see `unicode_split`."""
    with tf.name_scope(name, "UnicodeSplitWithOffsets", [input]):
        codes, starts = unicode_decode_with_offsets(input, input_encoding, errors, replacement_char)

        def each(flat: Any) -> Any:
            ends = tf.range(tf.size(flat, out_type=tf.int64) + 1)
            return _encoded(flat, ends, input_encoding, errors, replacement_char)

        is_ragged = isinstance(codes, RaggedTensor)
        return (codes.with_flat_values(each(codes.flat_values)) if is_ragged else each(codes)), starts


@export("strings.bytes_split")
def bytes_split(input: Any, name: str | None = None) -> Any:
    """Returns the bytes of strings, each as a string: a vector of one string, a RaggedTensor of several."""

    def split(strings: Any) -> tuple[list[Any], Any]:
        found = tf.string_split(strings, "")
        rows = RaggedTensor.from_value_rowids(
            found.values, found.indices[:, 0], tf.size(strings, out_type=tf.int64), validate=False
        )
        return [found.values], rows.row_splits

    with tf.name_scope(name, "StringsByteSplit", [input]):
        return _by_string(input, split)[0]


@export("strings.ngrams")
def ngrams(
    data: Any, ngram_width: Any, separator: str = " ", pad_values: Any = None, padding_width: int | None = None,
    preserve_short_sequences: bool = False, name: str | None = None,
) -> Any:  # fmt: skip
    """Returns runs of neighbouring strings of each row, joined.

    Args:
        data: A RaggedTensor, or a tensor with at least one dimension.
        ngram_width: How many strings a run has, or several such numbers.
        separator: What goes between the strings.
        pad_values: Strings that go before and after each row: one for both, or two; None for none.
        padding_width: How many of them; as many as the width asks for if None.
        preserve_short_sequences: Whether a row that is too short gives all of it.
        name: A name for the nodes.

    Returns:
        Ragged for a RaggedTensor, else a tensor.

    Raises:
        TypeError: If `pad_values` is neither a string nor two.
        ValueError: If a width is not positive.

    Example:
        >>> with tf.Session() as s:
        ...     print(s.run(tf.strings.ngrams(["a", "b", "c"], 2)))
        [b'a b' b'b c']
    """
    with tf.name_scope(name, "StringNGrams", [data]):
        left, right = (pad_values, pad_values) if isinstance(pad_values, (str, bytes)) else pad_values or ("", "")
        if not all(isinstance(each, (str, bytes)) for each in (left, right)):
            raise TypeError("pad_values must be a string, tuple of strings, or None.")
        widths = [ngram_width] if isinstance(ngram_width, int) else list(ngram_width)
        if any(width < 1 for width in widths):
            raise ValueError(f"All ngram_widths must be greater than 0. Got {ngram_width}")
        most = 0 if pad_values is None else -1 if padding_width is None else padding_width
        is_ragged = isinstance(data, RaggedTensor)
        if not is_ragged:
            data = tf.convert_to_tensor(data, tf.string)
            if not data.shape.ndims:
                raise ValueError("Data must have at least one dimension, and a known rank.")
        is_vector = not is_ragged and data.shape.ndims == 1
        if not is_ragged:
            rows = data[None] if is_vector else data
            data = RaggedTensor.from_tensor(rows, ragged_rank=rows.shape.ndims - 1)
        found = tf.raw_ops.StringNGrams(
            data=data.flat_values, data_splits=data.nested_row_splits[-1], separator=separator, ngram_widths=widths,
            left_pad=left, right_pad=right, pad_width=most, preserve_short_sequences=preserve_short_sequences,
        )  # fmt: skip
        joined = RaggedTensor.from_nested_row_splits(
            found.ngrams, [*data.nested_row_splits[:-1], found.ngrams_splits], validate=False
        )
        if is_ragged:
            return joined
        return joined.flat_values if is_vector else joined.to_tensor()
