"""Cases of splitting, joining along dimensions, and regular expressions."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real
from tests.op_cases.strings import EMPTY, SCALAR, WORDS, each, texts

_S = "string"
_ROWS = texts("a b  c ", "", " d", "e,f g")


def _sparse(rows: list[list[bytes]]) -> Any:
    indices = [(r, k) for r, row in enumerate(rows) for k in range(len(row))]
    values = np.array([token for row in rows for token in row] + [None], dtype=object)[:-1]
    widest = max((len(row) for row in rows), default=0)
    return np.array(indices, np.int64).reshape(-1, 2), values, np.array([len(rows), widest])


def _flat(sparse: Any) -> Any:
    return sparse.indices, sparse.values, sparse.dense_shape


def _old_split(strings: Any, sep: str = " ", skip_empty: bool = True) -> Any:
    rows = [re.split(b"[" + sep.encode() + b"]", s) if s else [] for s in strings]
    return _sparse([[t for t in row if t or not skip_empty] for row in rows])


case(
    "StringSplit", lambda s, **kw: _flat(tf.string_split(s, **kw)), _old_split, dtypes=_S,
    samples=[
        Args(_ROWS), Args(_ROWS, skip_empty=False), Args(_ROWS, sep=", "), Args(np.array([], object)),
    ],
    bad=[Bad(Args(texts(["a"])), match="[1,1]"), Bad(Args(SCALAR), match="[]")],
)  # fmt: skip
case(
    "StringSplit", lambda s: _flat(tf.string_split(s, delimiter="")),
    lambda s: _sparse([[bytes([c]) for c in row] for row in s]), dtypes=_S, samples=[Args(_ROWS)],
)  # fmt: skip
case(
    "StringSplitV2", lambda s, **kw: _flat(tf.strings.split(s, **kw)),
    lambda s, sep=None, maxsplit=-1: _sparse([t.split(sep and sep.encode(), maxsplit) for t in s]), dtypes=_S,
    samples=[
        Args(_ROWS), Args(_ROWS, sep=" "), Args(texts("a<>b<><>c", "<>", "<"), sep="<>"), Args(_ROWS, maxsplit=1),
        Args(_ROWS, sep=" ", maxsplit=2), Args(_ROWS, maxsplit=0), Args(np.array([], object)),
    ],
    bad=[Bad(Args(texts(["a"])), match="[1,1]")],
)  # fmt: skip


def _reduce_join(x: Any, axis: Any = None, separator: str = "", keepdims: bool = False) -> Any:
    x = np.asarray(x, object)
    axes = list(range(x.ndim - 1, -1, -1)) if axis is None else [int(a) % x.ndim for a in np.ravel(axis)]
    for a in axes:
        out = np.empty(tuple(1 if i == a else n for i, n in enumerate(x.shape)), object)
        for index in np.ndindex(out.shape):
            at = tuple(slice(None) if i == a else k for i, k in enumerate(index))
            out[index] = separator.encode().join(x[at])
        x = out
    return x if keepdims else x.reshape([n for i, n in enumerate(x.shape) if i not in axes])


case(
    "ReduceJoin", tf.reduce_join, _reduce_join, dtypes=_S,
    samples=[
        Args(real(2, 3)), Args(real(2, 3), np.array(0, np.int32)), Args(real(2, 3, 2), [-1, 0], separator="."),
        Args(real(2, 3, 2), [0, 2], keepdims=True), Args(real(2, 3), []), Args(real()), Args(real(0, 2), 0),
        Args(real(2, 0), 0),
    ],
    bad=[
        Bad(Args(real(2, 3), np.array(2, np.int32)), match="dimension 2"),
        Bad(Args(real(2, 3), np.array([0, -2], np.int32)), match="Duplicate"),
        Bad(Args(real(2, 3), np.array([[0]], np.int32)), match="[1,1]"),
    ],
)  # fmt: skip

_TEXTS = texts("abcabc", "xbz", "")
case(
    "StaticRegexReplace", lambda s, **kw: tf.regex_replace(s, "b(.)", r"<\1\0\\>", **kw),
    lambda s, replace_global=True: each(
        lambda t: re.sub(rb"b(.)", rb"<\1\g<0>\\>", t, count=0 if replace_global else 1)
    )(s),
    dtypes=_S, samples=[Args(_TEXTS), Args(_TEXTS, replace_global=False), Args(SCALAR), Args(EMPTY)],
)  # fmt: skip
case(
    "StaticRegexReplace", lambda s: tf.regex_replace(s, "(", ""), None, dtypes=_S, samples=[],
    bad=[Bad(Args(_TEXTS), match="Invalid pattern: (")],
)  # fmt: skip
case(
    "RegexReplace", tf.regex_replace, lambda s, p, r: each(lambda t: re.sub(bytes(p[()]), bytes(r[()]), t))(s),
    dtypes=_S, samples=[Args(_TEXTS, np.array(b"b+", object), np.array(b"-", object))],
    bad=[
        Bad(Args(_TEXTS, np.array(b"[", object), np.array(b"", object)), match="["),
        Bad(Args(_TEXTS, texts("a"), np.array(b"", object)), match="1"),
    ],
)  # fmt: skip
case(
    "StaticRegexFullMatch", lambda s: tf.strings.regex_full_match(s, "[a-c]*"),
    each(lambda t: re.fullmatch(b"[a-c]*", t) is not None, np.bool_), dtypes=_S,
    samples=[Args(_TEXTS), Args(WORDS), Args(SCALAR), Args(EMPTY)],
)  # fmt: skip
case(
    "RegexFullMatch", tf.strings.regex_full_match,
    lambda s, p: each(lambda t: re.fullmatch(bytes(p[()]), t) is not None, np.bool_)(s), dtypes=_S,
    samples=[Args(_TEXTS, np.array(b".b.", object))],
    bad=[Bad(Args(_TEXTS, np.array(b"*", object)), match="*"), Bad(Args(_TEXTS, texts("a", "b")), match="2")],
)  # fmt: skip
