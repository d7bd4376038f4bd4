"""Cases of string ops, against Python's own strings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real


def texts(*items: Any) -> np.ndarray:
    """Strings as a tensor would hold them; nested lists give matrices."""
    return np.array(np.vectorize(lambda s: s.encode() if isinstance(s, str) else s, otypes=[object])(list(items)))


def each(function: Callable[[bytes], Any], dtype: Any = object) -> Callable[..., Any]:
    """A reference that works on every element."""

    def reference(array: Any, *_: Any, **__: Any) -> Any:
        out = np.empty(np.shape(array), dtype)
        for index in np.ndindex(out.shape):
            out[index] = function(np.asarray(array, object)[index])
        return out

    return reference


WORDS = texts("", "a", "Hello World", " x\t\n", "Grüße €", "x" * 100)
SCALAR = np.array(b"aBc", dtype=object)
EMPTY = np.zeros((2, 0), dtype=object)
_S = "string"

case(
    "StringLength", tf.strings.length, each(len, np.int32), dtypes=_S, samples=[Args(WORDS), Args(SCALAR), Args(EMPTY)]
)
case(
    "StringLength", tf.strings.length, each(lambda s: len(s.decode()), np.int32), dtypes=_S,
    samples=[Args(WORDS, unit="UTF8_CHAR")],
)  # fmt: skip
case("StringLower", tf.strings.lower, each(bytes.lower), dtypes=_S, samples=[Args(WORDS), Args(SCALAR), Args(EMPTY)])
case(
    "StringLower", tf.strings.lower, each(lambda s: s.decode().lower().encode()), dtypes=_S,
    samples=[Args(WORDS, encoding="utf-8")], bad=[Bad(Args(WORDS, encoding="latin-1"), match="latin-1")],
)  # fmt: skip
case("StringUpper", tf.strings.upper, each(bytes.upper), dtypes=_S, samples=[Args(WORDS), Args(SCALAR), Args(EMPTY)])
case(
    "StringUpper", tf.strings.upper, each(lambda s: s.decode().upper().encode()), dtypes=_S,
    samples=[Args(WORDS, encoding="utf-8")],
)  # fmt: skip
case("StringStrip", tf.string_strip, each(bytes.strip), dtypes=_S, samples=[Args(WORDS), Args(SCALAR), Args(EMPTY)])
case(
    "StringJoin",
    lambda a, b, **kw: tf.string_join([a, b], **kw),
    lambda a, b, separator="": each(lambda pair: separator.encode().join(pair))(_pairs(a, b)),
    dtypes=_S,
    samples=[Args(WORDS, WORDS), Args(SCALAR, WORDS, separator="-"), Args(SCALAR, SCALAR), Args(EMPTY, EMPTY)],
    bad=[Bad(Args(WORDS, texts("a", "b")), match="[6] vs. [2]")],
)
case(
    "Add", tf.add, lambda a, b: each(b"".join)(_pairs(a, b)), dtypes=_S,
    samples=[Args(WORDS, WORDS), Args(WORDS, SCALAR), Args(real(2, 1), real(1, 3)), Args(EMPTY, SCALAR)],
    bad=[Bad(Args(WORDS, texts("a", "b")), match="6")],
)  # fmt: skip


def _pairs(a: Any, b: Any) -> Any:
    a, b = np.broadcast_arrays(a, b)
    out = np.empty(a.shape, dtype=object)
    for index in np.ndindex(a.shape):
        out[index] = (a[index], b[index])
    return out


def _substr(text: Any, position: Any, length: Any, unit: str = "BYTE") -> Any:
    text, position, length = np.broadcast_arrays(text, position, length)
    out = np.empty(text.shape, dtype=object)
    for i in np.ndindex(out.shape):
        s = text[i] if unit == "BYTE" else text[i].decode()
        start = position[i] + len(s) if position[i] < 0 else position[i]
        cut = s[start : start + length[i]] if length[i] >= 0 else s[start:]
        out[i] = cut if unit == "BYTE" else cut.encode()
    return out


_TEXT = texts("hello", "world!", "a€b")
case(
    "Substr", tf.strings.substr, _substr, dtypes=_S,
    samples=[
        Args(_TEXT, np.array(1), np.array(2)), Args(_TEXT, np.array(-2), np.array(9)), Args(_TEXT, 0, -1),
        Args(_TEXT, np.array([[1], [2]], np.int32), np.array([[1], [0]], np.int32)), Args(EMPTY, 0, 1),
        Args(_TEXT, 1, 2, unit="UTF8_CHAR"), Args(_TEXT, -2, 2, unit="UTF8_CHAR"), Args(_TEXT, 3, 2, unit="UTF8_CHAR"),
    ],
    bad=[
        Bad(Args(_TEXT, np.array(6), np.array(1)), match="6"), Bad(Args(_TEXT, np.array(-7), np.array(1)), match="-7"),
        Bad(Args(_TEXT, np.array([1, 2]), np.array([1])), match="[2]"),
        Bad(Args(_TEXT, np.array([1, 2]), np.array([1, 1])), match="3"),
        Bad(Args(_TEXT, np.array(4), np.array(1), unit="UTF8_CHAR"), match="4"),
        Bad(Args(_TEXT, np.array(-(2**63)), np.array(2**63 - 1)), match="out of range"),
    ],
)  # fmt: skip

_NUMBERS = texts("1", " -2 ", "+3", "40")
for _type in (tf.float32, tf.float64, tf.int32, tf.int64):
    case(
        "StringToNumber", lambda s, t=_type: tf.string_to_number(s, t), each(float, _type.as_numpy_dtype), dtypes=_S,
        samples=[Args(_NUMBERS), Args(np.array(b"7", object)), Args(EMPTY)],
        bad=[Bad(Args(texts("1", t)), match=t) for t in ("x", "1.5x", "--1", "1 2", "+-3", "")]
        + [Bad(Args(texts("1\0")), match="1")],
    )  # fmt: skip
case(
    "StringToNumber", tf.string_to_number, each(float, np.float32), dtypes=_S,
    samples=[Args(texts("1.5", "-1e-3", "inf", "nan", "1e60"))],
)  # fmt: skip
case(
    "StringToNumber", lambda s: tf.string_to_number(s, tf.int32), None, dtypes=_S,
    samples=[Args(texts("2147483647", "-2147483648"))],
    bad=[Bad(Args(texts(t)), match=t) for t in ("2147483648", "1.5", "0x10", "99999999999999999999")],
)  # fmt: skip

_FORMATS: list[tuple[dict[str, Any], str]] = [
    ({}, "%f"), ({"precision": 2}, "%.2f"), ({"scientific": True}, "%e"), ({"shortest": True}, "%g"),
    ({"width": 12}, "%12f"), ({"width": 12, "fill": "0"}, "%012f"), ({"width": 12, "fill": "-"}, "%-12f"),
    ({"fill": "+"}, "%+f"), ({"precision": 300}, "%.300f"),
]  # fmt: skip
for _options, _format in _FORMATS:
    case(
        "AsString", tf.as_string, lambda x, f=_format, **_: each(lambda v: (f % float(v)).encode())(x),
        dtypes="float16 bfloat16 float32 float64", samples=[Args(real(2, 3), **_options), Args(real(), **_options)],
    )  # fmt: skip
case(
    "AsString", tf.as_string, each(lambda v: str(int(v)).encode()), dtypes="int8 int16 int32 int64 uint8 uint64",
    samples=[Args(real(3, high=100)), Args(real(0))],
    bad=[
        Bad(Args(real(2), precision=1), match="precision"), Bad(Args(real(2), scientific=True), match="scientific"),
        Bad(Args(real(2), fill="x"), match="x"), Bad(Args(real(2), fill="00"), match="00"),
        Bad(Args(real(2), width=1 << 30), match="1073741824"),
        Bad(Args(real(2), scientific=True, shortest=True), match="both", dtype="float32"),
    ],
)  # fmt: skip
case("AsString", tf.as_string, each(lambda v: b"true" if v else b"false"), dtypes="bool", samples=[Args(real(4))])
case(
    "AsString", tf.as_string, each(lambda v: f"({v.real:.6f},{v.imag:.6f})".encode()), dtypes="complex64 complex128",
    samples=[Args(real(4))],
)  # fmt: skip
case("AsString", tf.as_string, each(lambda s: s), dtypes=_S, samples=[Args(WORDS)])

_B64 = [Args(WORDS), Args(SCALAR), Args(EMPTY)]


def _encoded(s: bytes) -> bytes:
    import base64

    return base64.urlsafe_b64encode(s).rstrip(b"=")


case("EncodeBase64", tf.encode_base64, each(_encoded), dtypes=_S, samples=_B64)
case(
    "DecodeBase64", lambda s: tf.decode_base64(tf.encode_base64(s, pad=True)), each(lambda s: s), dtypes=_S,
    samples=_B64,
)  # fmt: skip
case(
    "DecodeBase64", tf.decode_base64, None, dtypes=_S, samples=[Args(texts("YWI", "YWI=", "__79", ""))],
    bad=[Bad(Args(texts(t)), match="ase64") for t in ("a*bc", "a", "YQ=", "====", "ab\0d")],
)  # fmt: skip

_BYTES = texts(bytes(range(16)), bytes(range(16, 32)))
for _name in ("uint8", "int16", "float32", "float64", "complex64", "complex128", "int64"):
    _order = np.dtype(_name)
    case(
        "DecodeRaw", lambda s, t=_name, **kw: tf.decode_raw(s, tf.as_dtype(t), **kw),
        lambda s, d=_order, little_endian=True: _unpacked(s, d if little_endian else d.newbyteorder(">"), d), dtypes=_S,
        samples=[Args(_BYTES), Args(_BYTES, little_endian=False), Args(_BYTES[0:1].reshape(())), Args(EMPTY)],
    )  # fmt: skip
case(
    "DecodeRaw", lambda s: tf.decode_raw(s, tf.int16), None, dtypes=_S, samples=[Args(_BYTES)],
    bad=[Bad(Args(texts("abc")), match="3"), Bad(Args(texts("ab", "abcd")), match="4 != 2")],
)  # fmt: skip


def _unpacked(strings: Any, order: Any, dtype: Any) -> Any:
    strings = np.asarray(strings, object)
    rows = [np.frombuffer(s, order) for s in strings.ravel()]
    width = len(rows[0]) if rows else 0
    return np.array(rows, dtype).reshape(*strings.shape, width)


for _op, _function in (
    ("StringToHashBucket", lambda s: tf.string_to_hash_bucket(s, 100)),
    ("StringToHashBucketFast", lambda s: tf.string_to_hash_bucket_fast(s, 100)),
    ("StringToHashBucketStrong", lambda s: tf.string_to_hash_bucket_strong(s, 100, [1, 2])),
):
    case(_op, _function, None, dtypes=_S, samples=[Args(WORDS), Args(SCALAR), Args(EMPTY)])
case(
    "StringToHashBucketStrong", lambda s: tf.string_to_hash_bucket_strong(s, 9, [1]), None, dtypes=_S, samples=[],
    bad=[Bad(Args(WORDS), match="2 elements")],
)  # fmt: skip
case(
    "StringFormat", lambda x: tf.strings.format("a {} b", [x]), lambda x: np.array(b"a [%d %d] b" % tuple(x), object),
    dtypes="int32 int64 uint8", samples=[Args(real(2, low=0, high=9))],
)  # fmt: skip
case("StringFormat", lambda x: tf.strings.format("{}", x), None, dtypes="float16 bfloat16 complex64 bool string",
     samples=[Args(real(3, 4, 5)), Args(real()), Args(real(0, 3)), Args(real(20))])  # fmt: skip
case(
    "CheckNumerics", lambda x: tf.check_numerics(x, "here"), lambda x: x, dtypes="float16 bfloat16 float32 float64",
    samples=[Args(real(2, 3)), Args(real(0)), Args(real())], order=2,
    bad=[Bad(Args(np.array([1, np.nan])), match="here : Tensor had NaN"), Bad(Args(np.array([np.inf])), match="Inf")],
)  # fmt: skip
