"""Cases of dilation and erosion."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real
from tests.ops.convolution_reference import Convolution
from thalweg.graph.apply import apply

ONES = [1, 1, 1, 1]
REALS = "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64"


def _sums(x: np.ndarray, w: np.ndarray, strides: Any, rates: Any, padding: str) -> tuple[np.ndarray, Convolution]:
    """The sums of image and filter, the windows in the last dimension; those with padding are negative infinity."""
    geometry = Convolution(strides, padding, rates)
    geometry._geometry(x.shape, (*w.shape, 1))
    padded = np.pad(x.astype(np.float64), [(0, 0), *geometry.pads, (0, 0)], constant_values=-np.inf)
    cells = [padded[(slice(None), *window)] + w[at] for at, window in geometry._windows((*w.shape, 1))]
    return np.stack(cells, -1), geometry


def _dilation(x: np.ndarray, w: np.ndarray, *args: Any) -> np.ndarray:
    sums, _ = _sums(x, w, *args)
    return sums.max(-1).astype(x.dtype)


def _gradients(x: np.ndarray, w: np.ndarray, grad: np.ndarray, *args: Any) -> tuple[np.ndarray, np.ndarray]:
    sums, geometry = _sums(x, w, *args)
    best = sums.argmax(-1)
    dx = np.pad(np.zeros(x.shape), [(0, 0), *geometry.pads, (0, 0)])
    dw = np.zeros(w.shape)
    for n, i, j, c in itertools.product(*map(range, grad.shape)):
        at = np.unravel_index(best[n, i, j, c], w.shape[:2])
        row, column = (o * s + a * r for o, s, a, r in zip((i, j), geometry.stride, at, geometry.dilation, strict=True))
        dx[n, row, column, c] += grad[n, i, j, c]
        dw[at[0], at[1], c] += grad[n, i, j, c]
    crop = tuple(slice(b, b + s) for s, (b, _) in zip(x.shape[1:3], geometry.pads, strict=True))
    return dx[(slice(None), *crop)].astype(x.dtype), dw.astype(x.dtype)


case(
    "Dilation2D",
    tf.nn.dilation2d,
    _dilation,
    samples=[
        Args(real(2, 4, 5, 2), real(2, 3, 2), ONES, ONES, "VALID"),
        Args(real(1, 5, 4, 2), real(3, 3, 2), [1, 2, 2, 1], ONES, "SAME"),
        Args(real(1, 5, 6, 1), real(2, 2, 1), [1, 1, 2, 1], [1, 2, 3, 1], "SAME"),
        Args(real(0, 4, 5, 2), real(2, 3, 2), ONES, ONES, "VALID"),
        Args(real(1, 2, 2, 2), real(3, 3, 2), ONES, ONES, "VALID"),
    ],
    dtypes=REALS,
    order=1,
    bad=[
        Bad(Args(real(1, 5, 5, 3), real(3, 3, 2), ONES, ONES, "VALID"), match="3 vs 2"),
        Bad(Args(real(1, 5, 5), real(3, 3, 2), ONES, ONES, "VALID"), match="[1,5,5]"),
        Bad(Args(real(1, 5, 5, 2), real(3, 3, 2, 1), ONES, ONES, "VALID"), match="[3,3,2,1]"),
        Bad(Args(real(1, 1, 1, 2), real(3, 3, 2), ONES, ONES, "VALID"), match="negative"),
        Bad(Args(real(1, 5, 5, 2), real(0, 3, 2), ONES, ONES, "VALID"), match="zero"),
        Bad(Args(real(1, 5, 5, 2), real(3, 3, 2), [1, 0, 1, 1], ONES, "VALID"), match="strides"),
        Bad(Args(real(1, 5, 5, 2), real(3, 3, 2), ONES, [2, 1, 1, 1], "VALID"), match="rates"),
    ],
)
case(
    "Dilation2D",
    tf.nn.erosion2d,
    lambda x, w, *args: -_dilation(-x, w[::-1, ::-1], *args),
    samples=[Args(real(1, 5, 4, 2), real(3, 2, 2), [1, 2, 1, 1], ONES, "SAME")],
    dtypes="int32 float32 float64",
    order=1,
    notes="Erosion.",
)
for index, which in enumerate(("Input", "Filter")):
    case(
        f"Dilation2DBackprop{which}",
        lambda x, w, grad, strides, rates, padding, which=which: apply(
            f"Dilation2DBackprop{which}", x, w, grad, strides=strides, rates=rates, padding=padding
        ),
        lambda *args, index=index: _gradients(*args)[index],
        samples=[
            Args(real(2, 4, 5, 2), real(2, 3, 2), real(2, 3, 3, 2), ONES, ONES, "VALID"),
            Args(real(1, 5, 6, 1), real(2, 2, 1), real(1, 5, 3, 1), [1, 1, 2, 1], [1, 2, 3, 1], "SAME"),
            Args(real(0, 4, 5, 2), real(2, 3, 2), real(0, 3, 3, 2), ONES, ONES, "VALID"),
        ],
        dtypes="int8 uint8 int32 int64 float32 float64",
        bad=[
            Bad(
                Args(real(2, 4, 5, 2), real(2, 3, 2), real(2, 3, 4, 2), ONES, ONES, "VALID"),
                match="[2,3,4,2]",
            )
        ],
    )
