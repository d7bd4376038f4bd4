"""Cases of the convolution with the ops after it fused in."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.op_cases import Args, Bad, case, real
from tests.op_cases.convolution import FLOATS, reference
from thalweg.graph.apply import apply

ACTIVATIONS = {
    "Relu": lambda x: np.maximum(x, 0),
    "Relu6": lambda x: np.clip(x, 0, 6),
    "Elu": lambda x: np.where(x < 0, np.expm1(x), x),
    "LeakyRelu": lambda x: np.where(x < 0, 0.1 * x, x),
    "Tanh": np.tanh,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}


def _fused(x: Any, w: Any, *args: Any, ops: str, strides: int = 1, data_format: str = "NHWC") -> Any:
    steps = [1, strides, strides, 1] if data_format == "NHWC" else [1, 1, strides, strides]
    return apply(
        "_FusedConv2D", x, w, list(args), strides=steps, padding="SAME", data_format=data_format,
        fused_ops=ops.split(), epsilon=0.01, leakyrelu_alpha=0.1,
    )  # fmt: skip


def _reference(x: Any, w: Any, *args: Any, ops: str, strides: int = 1, data_format: str = "NHWC") -> Any:
    dtype, last = x.dtype, data_format == "NHWC"
    x, w, rest = x.astype(np.float64), w.astype(np.float64), [a.astype(np.float64) for a in args]
    y = reference(strides, "SAME", data_format).forward(x, w)
    along = (lambda v: v) if last else (lambda v: v[:, None, None])
    for name in ops.split():
        if name == "BiasAdd":
            y = y + along(rest.pop(0))
        elif name == "FusedBatchNorm":
            scale, offset, mean, variance = (along(rest.pop(0)) for _ in range(4))
            y = (y - mean) / np.sqrt(variance + 0.01) * scale + offset
        elif name == "Add":
            y = y + rest.pop(0)
        else:
            y = ACTIVATIONS[name](y)
    return y.astype(dtype)


SMALL = (real(1, 3, 4, 2), real(2, 2, 2, 3))
LARGE = (real(2, 9, 10, 8, low=-1, high=1), real(3, 3, 8, 16, low=-0.5, high=0.5))
case(
    "_FusedConv2D",
    _fused,
    _reference,
    samples=[
        Args(*SMALL, ops="Relu"),
        Args(*SMALL, real(3), ops="BiasAdd"),
        Args(*SMALL, real(3), ops="BiasAdd Relu6"),
        Args(*SMALL, real(3), real(1, 3, 4, 3), ops="BiasAdd Add Relu"),
        Args(*LARGE, real(16), ops="BiasAdd"),
        Args(*LARGE, real(16), real(2, 5, 5, 16), ops="BiasAdd Relu Add", strides=2),
        Args(real(2, 8, 9, 10), real(3, 3, 8, 16), real(16), ops="BiasAdd Relu", data_format="NCHW"),
        *(Args(*LARGE, real(16), ops=f"BiasAdd {name}") for name in ACTIVATIONS),
    ],
    dtypes=FLOATS,
    tolerance=2e-4,
    bad=[
        Bad(Args(*SMALL, real(2), ops="BiasAdd"), match="[2]"),
        Bad(Args(*SMALL, real(3), real(1, 3, 4, 2), ops="BiasAdd Add"), match="[1,3,4,2]"),
        Bad(Args(*SMALL, ops="BiasAdd"), match="1 arguments, got 0"),
        Bad(Args(*SMALL, real(3), ops="Relu BiasAdd"), match="BiasAdd"),
        Bad(Args(*SMALL, ops="Softmax"), match="Softmax"),
    ],
)
STATISTICS = (real(16), real(16), real(16), real(16, low=0.1))
case(
    "_FusedConv2D",
    _fused,
    _reference,
    samples=[
        Args(*SMALL, *(real(3, low=0.5) for _ in range(4)), ops="FusedBatchNorm"),
        Args(*LARGE, *STATISTICS, ops="FusedBatchNorm Relu"),
        Args(real(2, 8, 9, 10), real(3, 3, 8, 16), *STATISTICS, ops="FusedBatchNorm Elu", data_format="NCHW"),
    ],
    tolerance=5e-4,
    bad=[Bad(Args(*SMALL, real(3), real(3), real(2), real(3), ops="FusedBatchNorm"), match="[2]")],
)
