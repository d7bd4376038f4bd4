"""Decoding of strings: comma-separated values, JSON, compressed bytes, padded numbers, whole tensors."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from thalweg import errors
from thalweg.graph.apply import apply_list, apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, not_differentiable, python_kernel
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.text import example_messages


def _decode_csv_shape(c: ShapeContext) -> list[TensorShape]:
    for i in range(1, c.num_inputs):
        dims = shapes.with_rank_at_most(c.input(i), 1).dims_tuple
        if dims and dims[0] is not None and dims[0] > 1:
            raise ValueError("Shape of a default must be a length-0 or length-1 vector, or a scalar.")
    return [c.input(0)] * c.num_outputs


define(
    "DecodeCSV",
    "records: string, record_defaults: OUT_TYPE -> output: OUT_TYPE",
    "OUT_TYPE: list({float, double, int32, int64, string}) >= 1, field_delim: string = ',', "
    "use_quote_delim: bool = true, na_value: string = '', select_cols: list(int) = []",
    shape=_decode_csv_shape,
)
not_differentiable("DecodeCSV")


@export("decode_csv", "io.decode_csv")
def decode_csv(
    records: Any,
    record_defaults: Any,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    name: str | None = None,
    na_value: str = "",
    select_cols: Any = None,
) -> list[Tensor]:
    """Splits records of comma-separated values (RFC 4180) into one tensor per column.

    Args:
        records: Strings, each one record.
        record_defaults: For each column a tensor that decides its type: with the value of empty fields, or without any
            value if the field is required.
        field_delim: One character between fields.
        use_quote_delim: Whether fields may stand in double quotes.
        name: A name for the operation.
        na_value: Another text that means an empty field.
        select_cols: The numbers of the columns to take, in ascending order; all of them if None.

    Returns:
        A list of tensors with the shape of `records`.

    Raises:
        ValueError: If `select_cols` does not fit the defaults.

    Example:
        >>> age, name = tf.decode_csv(["29,Ada", ",Bob"], record_defaults=[[-1], [""]])
        >>> with tf.Session() as sess:
        ...     print(sess.run(age))
        [29 -1]
    """
    if select_cols is not None:
        if any(column < 0 for column in select_cols):
            raise ValueError("select_cols contains negative values.")
        if any(a >= b for a, b in itertools.pairwise(select_cols)):
            raise ValueError("select_cols is not strictly increasing.")
        if len(select_cols) != len(record_defaults):
            raise ValueError("Length of select_cols and record_defaults do not match.")
    return apply_list(
        "DecodeCSV", records, list(record_defaults), field_delim=field_delim, use_quote_delim=use_quote_delim,
        na_value=na_value, select_cols=select_cols, name=name,
    )  # fmt: skip


define("DecodeJSONExample", "json_examples: string -> binary_examples: string", shape=shapes.unchanged)
not_differentiable("DecodeJSONExample")


@export("decode_json_example", "io.decode_json_example")
def decode_json_example(json_examples: Any, name: str | None = None) -> Tensor:
    """Turns Examples in protobuf's JSON form into serialized ones, as `parse_example` takes them."""
    return apply_one("DecodeJSONExample", json_examples, name=name)


@python_kernel("DecodeJSONExample")
def _decode_json_example(inputs: list[Any], attrs: dict[str, Any]) -> Any:
    del attrs
    from google.protobuf import json_format  # Start-up time: protobuf is slow to import.

    result = np.empty(inputs[0].shape, object)
    for index, text in np.ndenumerate(inputs[0]):
        try:
            if not text.lstrip().startswith(b"{"):
                raise json_format.ParseError("expected an object")
            message = json_format.Parse(text, example_messages.Example())
            result[index] = message.SerializeToString(deterministic=True)
        except (json_format.Error, UnicodeDecodeError) as e:
            raise errors.InvalidArgumentError(None, None, f"Error while parsing JSON: {e}") from None
    return result


define(
    "DecodeCompressed", "bytes: string -> output: string", "compression_type: string = ''", shape=shapes.unchanged,
)  # fmt: skip
not_differentiable("DecodeCompressed")


@export("io.decode_compressed", "decode_compressed")
def decode_compressed(bytes: Any, compression_type: str = "", name: str | None = None) -> Tensor:
    """Decompresses each string: `compression_type` is 'ZLIB', 'GZIP' or '' for none."""
    return apply_one("DecodeCompressed", bytes, compression_type=compression_type, name=name)


def _decode_padded_raw_shape(c: ShapeContext) -> TensorShape:
    shapes.with_rank(c.input(1), 0)
    length = c.constant(1)
    if length is None:
        return c.input(0).concatenate(shapes.ANY_VECTOR)
    if int(length) < 0:
        raise ValueError(f"Dimension size, given by scalar input 1, must be non-negative but is {int(length)}")
    width = c.attr("out_type").size
    if int(length) % width:
        raise ValueError(f"Dimension size must be evenly divisible by {width} but is {int(length)}")
    return c.input(0).concatenate(TensorShape([int(length) // width]))


define(
    "DecodePaddedRaw",
    "input_bytes: string, fixed_length: int32 -> output: out_type",
    "out_type: {half, float, double, int32, uint16, uint8, int16, int8, int64, bfloat16}, little_endian: bool = true",
    shape=_decode_padded_raw_shape,
)
define("SerializeTensor", "tensor: T -> serialized: string", "T: type", shape=shapes.scalar)
define("ParseTensor", "serialized: string -> output: out_type", "out_type: type", shape=shapes.unknown)
not_differentiable("DecodePaddedRaw", "SerializeTensor", "ParseTensor")


@export("serialize_tensor", "io.serialize_tensor")
def serialize_tensor(tensor: Any, name: str | None = None) -> Tensor:
    """A tensor as one string: a serialized TensorProto."""
    return apply_one("SerializeTensor", convert_to_tensor(tensor), name=name)


@export("parse_tensor", "io.parse_tensor")
def parse_tensor(serialized: Any, out_type: Any, name: str | None = None) -> Tensor:
    """The tensor in a serialized TensorProto, which must be of type `out_type`."""
    return apply_one("ParseTensor", serialized, out_type=out_type, name=name)
