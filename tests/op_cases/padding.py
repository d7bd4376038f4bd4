"""Cases of padding."""

from __future__ import annotations

from typing import Any

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real
from thalweg.graph.apply import apply

ALL = "bool uint8 int16 float16 float32 float64 complex128 string"
i32, i64 = np.int32, np.int64


def _pads(*pairs: tuple[int, int], dtype: Any = i32) -> np.ndarray:
    return np.array(pairs, dtype).reshape(-1, 2)


def _zero(x: np.ndarray) -> Any:
    return b"" if x.dtype == object else x.dtype.type(0)


def _padded(x: np.ndarray, paddings: Any, value: Any = None) -> np.ndarray:
    fill = _zero(x) if value is None else np.asarray(value)[()]
    out = np.full([d + a + b for d, (a, b) in zip(x.shape, paddings, strict=True)], fill, x.dtype)
    out[tuple(slice(a, a + d) for d, (a, _) in zip(x.shape, paddings, strict=True))] = x
    return out


_BAD = [
    Bad(Args(real(2, 3), _pads((1, 1), (-1, 0))), match="-1"),
    Bad(Args(real(2, 3), _pads((1, 1))), match="2"),
    Bad(Args(real(2), np.zeros([1, 3], i32)), match="2 columns"),
    Bad(Args(real(2), np.zeros([2], i32)), match="[2]"),
]
case(
    "Pad",
    tf.pad,
    _padded,
    samples=[
        Args(real(2, 3), _pads((1, 1), (0, 2))),
        Args(real(2, 3), _pads((0, 0), (0, 0))),
        Args(real(3), _pads((2, 0), dtype=i64)),
        Args(real(), _pads()),
        Args(real(0, 2), _pads((1, 1), (0, 1))),
        Args(real(1, 2, 3, 2), _pads((0, 1), (1, 0), (2, 2), (0, 0))),
    ],
    dtypes=ALL,
    order=2,
    bad=[*_BAD, Bad(Args(real(2), _pads((2**62, 2**62), dtype=i64)), match="overflow")],
)
case(
    "PadV2",
    lambda x, p, value: tf.pad(x, p, constant_values=value),
    _padded,
    samples=[Args(real(2, 3), _pads((1, 1), (0, 2)), real()), Args(real(0), _pads((1, 2)), real())],
    dtypes=ALL,
    order=2,
    bad=[Bad(Args(real(2), _pads((1, 0)), real(2)), match="[2]")],
)
for _mode in ("REFLECT", "SYMMETRIC"):
    case(
        "MirrorPad",
        lambda x, p, mode=_mode: tf.pad(x, p, mode),
        lambda x, p, mode=_mode: np.pad(x, [tuple(pair) for pair in p], mode.lower()) if x.ndim else x,
        samples=[
            Args(real(3, 4), _pads((1, 2), (3, 0))),
            Args(real(3, 4, 2), _pads((2, 2), (0, 1), (1, 1), dtype=i64)),
            Args(real(3), _pads((0, 0))),
            Args(real(), _pads()),
        ],
        dtypes=ALL,
        order=2,
        bad=[*_BAD, Bad(Args(real(2, 3), _pads((0, 0), (4, 0))), match="4")],
    )


def _folded(x: np.ndarray, paddings: np.ndarray, mode: str) -> np.ndarray:
    """The transpose of mirror padding: every padded element is added to the one it is a copy of."""
    sizes = [d - a - b for d, (a, b) in zip(x.shape, paddings, strict=True)]
    source = np.arange(np.prod(sizes, dtype=int)).reshape(sizes)
    where = np.pad(source, [tuple(pair) for pair in paddings], mode.lower())
    out = np.zeros(source.size, x.dtype)
    np.add.at(out, where.ravel(), x.ravel())
    return out.reshape(sizes)


case(
    "MirrorPadGrad",
    lambda x, p, mode: apply("MirrorPadGrad", x, p, mode=mode),
    _folded,
    samples=[
        Args(real(6, 7), _pads((1, 2), (3, 0)), "SYMMETRIC"),
        Args(real(6, 7), _pads((1, 2), (2, 1)), "REFLECT"),
        Args(real(3), _pads((0, 0)), "REFLECT"),
    ],
    dtypes="int64 float32 float64 complex64",
    order=2,
    bad=[
        Bad(Args(real(4), _pads((3, 2)), "SYMMETRIC"), match="4"),
        Bad(Args(real(4), _pads((3, 0)), "REFLECT"), match="3"),
    ],
)
