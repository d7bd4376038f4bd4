"""Cases of the parsing and decoding ops."""

from __future__ import annotations

import struct

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, covered_elsewhere, real
from thalweg.graph.apply import apply

covered_elsewhere(
    "take serialized Examples: tests/ops/test_parsing.py",
    "ParseExample", "ParseExampleV2", "ParseSingleExample", "ParseSequenceExample", "ParseSequenceExampleV2",
    "ParseSingleSequenceExample",
)  # fmt: skip
covered_elsewhere("take text in a format: tests/ops/test_decoding.py", "DecodeJSONExample", "DecodeCompressed")


def _strings(*values: bytes) -> np.ndarray:
    return np.array(values, object)


def _csv(records: np.ndarray) -> list[np.ndarray]:
    rows = [record.split(b",") for record in records.ravel()]
    first = np.array([int(row[0] or 7) for row in rows], np.int32).reshape(records.shape)
    second = np.array([row[1] for row in rows], object).reshape(records.shape)
    return [first, second]


case(
    "DecodeCSV",
    lambda records: tf.decode_csv(records, [[7], [""]]),
    _csv,
    samples=[Args(_strings(b"1,a", b",b")), Args(_strings()), Args(_strings(b"1,a", b"2,").reshape(2, 1))],
    dtypes="string",
    bad=[
        Bad(Args(_strings(b"1")), match="Expect 2 fields but have 1 in record 0"),
        Bad(Args(_strings(b"1,a", b"x,a")), match="Field 0 in record 1 is not a valid int32: x"),
        Bad(Args(_strings(b'1,"a')), match="Quoted field has to end with quote"),
    ],
)


def _padded(texts: np.ndarray, length: np.ndarray) -> np.ndarray:
    rows = [np.frombuffer(text[: int(length)].ljust(int(length), b"\0"), np.int16) for text in texts]
    return np.array(rows, np.int16).reshape(len(texts), int(length) // 2)


case(
    "DecodePaddedRaw",
    lambda texts, length: apply("DecodePaddedRaw", texts, length, out_type=tf.int16),
    _padded,
    samples=[Args(_strings(b"ab", b"abcdefg", b""), np.array(4, np.int32)), Args(_strings(), np.array(2, np.int32))],
    dtypes="string",
    bad=[
        Bad(Args(_strings(b"ab"), np.array(3, np.int32)), match="multiple"),
        Bad(Args(_strings(b"ab"), np.array(0, np.int32)), match="greater than zero"),
        Bad(Args(_strings(b"ab"), np.array(-2, np.int32)), match="greater than zero"),
    ],
)


def _proto(x: np.ndarray) -> np.ndarray:
    dims = b"".join(b"\x12" + (b"\x02\x08" + bytes([d]) if d else b"\x00") for d in x.shape)
    content = np.ascontiguousarray(x).tobytes()
    dtype = tf.as_dtype(x.dtype).as_datatype_enum
    head = b"\x08" + bytes([dtype]) + b"\x12" + bytes([len(dims)]) + dims
    return _strings(head + (b'"' + bytes([len(content)]) + content if content else b""))


case(
    "SerializeTensor",
    lambda x: tf.reshape(tf.serialize_tensor(x), [1]),
    _proto,
    samples=[Args(real(2, 3)), Args(real()), Args(real(0, 2))],
    dtypes="float16 bfloat16 float32 float64 complex64 uint8 int8 int16 int32 int64 bool",
)

_MATRIX = b"\x08\x01\x12\x08\x12\x02\x08\x01\x12\x02\x08\x02"
case(
    "ParseTensor",
    lambda text: tf.parse_tensor(text, tf.float32),
    lambda text: np.array([[1.5, 2.5]], np.float32),
    samples=[
        Args(np.array(_MATRIX + b'"\x08' + struct.pack("<2f", 1.5, 2.5), object)),
        Args(np.array(_MATRIX + b"\x2a\x08" + struct.pack("<2f", 1.5, 2.5), object)),
    ],
    dtypes="string",
    bad=[
        Bad(Args(np.array(b"\x05\x05", object)), match="Could not parse `serialized` as TensorProto"),
        Bad(Args(np.array(b"\x08\x03\x12\x00", object)), match="Type mismatch"),
        Bad(Args(np.array(_MATRIX + b'"\x03abc', object)), match="3 bytes"),
        Bad(Args(np.array(b"\x08\x01\x12\x02\x18\x01", object)), match="rank is unknown"),
        Bad(Args(np.array(b"\x08\x01\x12\x0d\x12\x0b\x08" + b"\xff" * 9 + b"\x01", object)), match="-1"),
        Bad(Args(_strings(b"")), match="scalar"),
    ],
)
