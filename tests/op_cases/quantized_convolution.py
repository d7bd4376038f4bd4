"""Cases of the quantized convolution."""

from __future__ import annotations

from typing import Any

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real
from tests.ops.convolution_reference import Convolution


def _call(x: Any, w: Any, *args: Any, **kwargs: Any) -> Any:
    """Draws of quantized types do not exist: bytes are reinterpreted on the way in, and integers on the way out."""
    quantized = tf.quint8 if x.dtype == tf.uint8 else tf.qint8
    out = tf.nn.quantized_conv2d(tf.bitcast(x, quantized), tf.bitcast(w, quantized), *args, **kwargs)
    return [tf.bitcast(out[0], tf.int32), out[1], out[2]]


def _reference(
    x: np.ndarray, w: np.ndarray, low: float, high: float, least: float, most: float, strides: Any, padding: str
) -> Any:
    bottom = np.iinfo(x.dtype).min
    steps = [(high - low) / 255, (most - least) / 255]
    centred = [
        a.astype(np.int64) + np.round(start / step) - bottom
        for a, start, step in zip((x, w), (low, least), steps, strict=True)
    ]
    out = Convolution(strides, padding).forward(*centred).astype(np.int32)
    one = steps[0] * steps[1]
    return [out, np.float32(one * -(2**31)), np.float32(one * (2**31 - 1))]


SMALL = (real(2, 4, 5, 2, low=0, high=120), real(2, 3, 2, 3, low=0, high=120))
case(
    "QuantizedConv2D",
    _call,
    _reference,
    samples=[
        Args(*SMALL, -1.0, 2.0, -3.0, 1.0, [1, 1, 1, 1], "SAME"),
        Args(*SMALL, 0.0, 2.0, 0.5, 1.0, [1, 2, 2, 1], "VALID"),
        Args(real(0, 4, 5, 2), real(2, 3, 2, 3), -1.0, 2.0, -3.0, 1.0, [1, 1, 1, 1], "SAME"),
    ],
    dtypes="uint8 int8",
    bad=[
        Bad(Args(*SMALL, 2.0, 1.0, -3.0, 1.0, [1, 1, 1, 1], "SAME"), match="[2, 1]"),
        Bad(Args(*SMALL, float("nan"), 1.0, -3.0, 1.0, [1, 1, 1, 1], "SAME"), match="nan"),
        Bad(Args(real(1, 4, 4, 3), real(2, 2, 2, 1), 0.0, 1.0, 0.0, 1.0, [1, 1, 1, 1], "SAME"), match="3 vs 2"),
        Bad(Args(*SMALL, [0.0, 0.0], 1.0, -3.0, 1.0, [1, 1, 1, 1], "SAME")),
    ],
)
