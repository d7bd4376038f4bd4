"""Cases of Unicode strings and of n-grams of strings. Python's own codecs are the reference for whole text."""

from __future__ import annotations

import functools
import itertools
import operator
from typing import Any

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case
from thalweg.graph.apply import apply


def _bytes(*values: bytes) -> np.ndarray:
    out = np.empty(len(values), object)
    out[:] = values
    return out


_TEXT = "hé€😀"
# Bytes that are no UTF-8, and their code points with 63 for each longest malformed piece.
_WRONG = {
    b"abc\xff\xfez": [97, 98, 99, 63, 63, 122],
    b"\xe2\x82": [63],
    b"a\x80b": [97, 63, 98],
    b"\xed\xa0\x80": [63, 63, 63],
    b"\xf4\x90\x80\x80": [63] * 4,
}


def _chars(data: bytes, encoding: str, errors: str) -> list[int]:
    if data in _WRONG and encoding == "UTF-8":
        return [code for code in _WRONG[data] if errors != "ignore" or code != 63]
    return [ord(c) for c in data.decode(encoding)]


def _transcoded(x: np.ndarray, encoding: str, to: str, errors: str = "replace", replacement: int = 63) -> np.ndarray:
    out = np.empty(x.shape, object)
    for place in np.ndindex(x.shape):
        out[place] = "".join(map(chr, _chars(x[place], encoding, errors))).encode(to)
    return out


_UTF8 = _bytes(_TEXT.encode(), b"", b"plain")
_BAD_TEXT = [
    Bad(Args(_bytes(b"\xff"), "UTF-8", "UTF-8", errors="strict"), match="Invalid formatting"),
    Bad(Args(_UTF8, "nonsense", "UTF-8"), match="nonsense"),
    Bad(Args(_UTF8, "zlib", "UTF-8"), match="zlib"),
    Bad(Args(_UTF8, "UTF-8", "UTF-7"), match=""),
    Bad(Args(_UTF8, "UTF-8", "UTF-8", replacement=0xD800), match="replacement_char"),
    Bad(Args(_UTF8, "UTF-8", "UTF-8", replacement=2**40), match="replacement_char"),
]
case(
    "UnicodeTranscode",
    lambda x, a, b, errors="replace", replacement=63: tf.strings.unicode_transcode(x, a, b, errors, replacement),
    _transcoded,
    samples=[
        Args(_UTF8, "UTF-8", "UTF-16-BE"),
        Args(_UTF8.reshape(3, 1), "UTF-8", "UTF-32-BE"),
        Args(_bytes(_TEXT.encode("utf-16-be")), "UTF-16-BE", "UTF-8"),
        Args(_bytes(b"\xe9\x00"), "latin1", "UTF-8"),
        Args(_bytes(*_WRONG), "UTF-8", "UTF-8"),
        Args(_bytes(*_WRONG), "UTF-8", "UTF-8", errors="ignore"),
        Args(np.array(_TEXT.encode(), object), "UTF-8", "UTF-8", errors="strict"),
        Args(np.zeros((0, 2), object), "UTF-8", "UTF-8"),
    ],
    dtypes="float32",
    bad=_BAD_TEXT,
)
case(
    "UnicodeTranscode",
    lambda x: tf.strings.unicode_transcode(x, "UTF-8", "UTF-8", "replace", 63, True),
    lambda x: _bytes(b"a??\x7f?"),
    samples=[Args(_bytes(b"a\x00\x1f\x7f\x80"))],
    dtypes="float32",
)


def _decoded(x: np.ndarray, encoding: str, errors: str = "replace") -> list[np.ndarray]:
    rows = [_chars(data, encoding, errors) for data in x.ravel()]
    return [np.cumsum([0] + [len(row) for row in rows]), np.array(functools.reduce(operator.iadd, rows, []), np.int32)]


def _decode_call(op: str) -> Any:
    return lambda x, encoding, errors="replace": list(
        apply(op, x, input_encoding=encoding, errors=errors, replacement_char=63)
    )


_DECODED = [Args(_UTF8, "UTF-8"), Args(_bytes(*_WRONG), "UTF-8"), Args(_bytes(*_WRONG), "UTF-8", errors="ignore")]
_UNDECODABLE = [
    Bad(Args(_bytes(b"\xff"), "UTF-8", errors="strict"), match="Invalid formatting"),
    Bad(Args(_UTF8, "rot13"), match="rot13"),
]
case(
    "UnicodeDecode",
    _decode_call("UnicodeDecode"),
    _decoded,
    samples=[*_DECODED, Args(np.zeros((0,), object), "UTF-8"), Args(_bytes(b"\x82\xa0a"), "shift-jis")],
    dtypes="float32",
    bad=_UNDECODABLE,
)


case(
    "UnicodeScript",
    tf.strings.unicode_script,
    # A letter of Latin, Hebrew and Han, a digit (common), an accent (inherited), no code point, one of no script.
    lambda x: np.array([25, 19, 17, 0, 1, -1, -1, 103, 103], np.int32)[: x.size].reshape(x.shape),
    samples=[
        Args(np.array([0x41, 0x5D0, 0x4E00, 0x30, 0x301, -1, 0x110000, 0x378, 0xD800], np.int32)),
        Args(np.array([[0x7A, 0x5EA]], np.int32)),
        Args(np.zeros((0, 2), np.int32)),
    ],
    dtypes="float32",
)


def _decoded_with_starts(x: np.ndarray, encoding: str, starts: list[int]) -> list[np.ndarray]:
    return [*_decoded(x, encoding), np.array(starts, np.int64)]


case(
    "UnicodeDecodeWithOffsets",
    lambda x, encoding, starts=(), **k: _decode_call("UnicodeDecodeWithOffsets")(x, encoding, **k),
    _decoded_with_starts,
    samples=[
        Args(_bytes(_TEXT.encode(), b"xy"), "UTF-8", starts=[0, 1, 3, 6, 0, 1]),
        Args(_bytes(_TEXT.encode("utf-16-be")), "UTF-16-BE", starts=[0, 2, 4, 6]),
        Args(_bytes(b"\x82\xa0a"), "shift-jis", starts=[0, 2]),
        Args(_bytes(b"abc\xff\xfez", b"\xe2\x82"), "UTF-8", starts=[0, 1, 2, 3, 4, 5, 0]),
    ],
    dtypes="float32",
    bad=_UNDECODABLE,
)
case(
    "UnicodeEncode",
    lambda codes, splits, to="UTF-8", errors="replace": apply(
        "UnicodeEncode", codes, splits, output_encoding=to, errors=errors, replacement_char=63
    ),
    lambda codes, splits, to="UTF-8", errors="replace": _bytes(
        *[
            "".join(
                chr(c) if 0 <= c < 0xD800 or 0xE000 <= c < 0x110000 else "?" if errors == "replace" else ""
                for c in codes[a:b]
            ).encode(to)
            for a, b in itertools.pairwise(splits)
        ]
    ),
    samples=[
        Args(np.array([104, 0x1F600, 233], np.int32), np.array([0, 2, 2, 3]), to=to) for to in ("UTF-8", "UTF-16-BE")
    ]
    + [
        Args(np.array([97, 0xD800, 0x110000, -1], np.int32), np.array([0, 4], np.int32), errors=errors)
        for errors in ("replace", "ignore")
    ],
    dtypes="float32",
    bad=[
        Bad(Args(np.array([0xD800], np.int32), np.array([0, 1]), errors="strict"), match="55296"),
        Bad(Args(np.array([1], np.int32), np.array([0, 2])), match="split value 2"),
        Bad(Args(np.array([1], np.int32), np.array([1, 1])), match="must be 0"),
        Bad(Args(np.array([1], np.int32), np.array([0, 2, 1])), match="decrease"),
        Bad(Args(np.array([1], np.int32), np.zeros(0, np.int64)), match="not empty"),
        Bad(Args(np.array([[1]], np.int32), np.array([0, 1])), match="vector"),
    ],
)


def _ngrams(
    data: Any, splits: Any, widths: list[int], left: str = "", right: str = "", pad: int = 0, keep: bool = False
) -> list[Any]:
    return list(
        apply(
            "StringNGrams", data, splits, separator="|", ngram_widths=widths, left_pad=left, right_pad=right,
            pad_width=pad, preserve_short_sequences=keep,
        )
    )  # fmt: skip


def _ngrams_reference(
    data: Any, splits: Any, widths: list[int], left: str = "", right: str = "", pad: int = 0, keep: bool = False
) -> list[np.ndarray]:
    found: list[bytes] = []
    ends = [0]
    for a, b in itertools.pairwise(splits):
        row = list(data[a:b])
        mine = []
        for width in widths:
            p = width - 1 if pad < 0 else min(pad, width - 1)
            full = [left.encode()] * p + row + [right.encode()] * p
            mine += [b"|".join(full[i : i + width]) for i in range(max(0, len(full) - width + 1))]
        if keep and not mine and row:
            mine = [b"|".join(row)]
        found += mine
        ends.append(len(found))
    return [_bytes(*found), np.array(ends)]


_LETTERS, _ROWS = _bytes(b"a", b"b", b"c", b"d", b"e"), np.array([0, 3, 4, 4, 5])
case(
    "StringNGrams",
    _ngrams,
    _ngrams_reference,
    samples=[
        Args(_LETTERS, _ROWS, [2]),
        Args(_LETTERS, _ROWS, [2], "L", "R", -1),
        Args(_LETTERS, _ROWS, [1, 2, 4], "L", "R", 1),
        Args(_LETTERS, _ROWS, [4], keep=True),
        Args(_LETTERS, _ROWS, []),
        Args(_bytes(), np.array([0]), [2]),
    ],
    dtypes="float32",
    bad=[
        Bad(Args(_LETTERS, np.array([0, 6]), [2]), match="split value 6"),
        Bad(Args(_LETTERS, np.array([1, 5]), [2]), match="must be 0"),
        Bad(Args(_LETTERS, np.array([0, 4, 2, 5]), [2]), match="decrease"),
        Bad(Args(_LETTERS, _ROWS, [0]), match="positive"),
        Bad(Args(_LETTERS, _ROWS, [2**40], pad=-1), match="too large"),
        Bad(Args(_LETTERS.reshape(5, 1), _ROWS, [2]), match="vector"),
    ],
)
