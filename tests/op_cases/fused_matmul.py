"""Cases of the matrix product with the ops after it fused in."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.op_cases import Args, Bad, case, covered_elsewhere, real
from tests.op_cases.convolution import FLOATS
from tests.op_cases.fused_convolution import ACTIVATIONS
from thalweg.graph.apply import apply


def _fused(a: Any, b: Any, *args: Any, ops: str, transpose_b: bool = False) -> Any:
    return apply(
        "_FusedMatMul", a, b, list(args), transpose_b=transpose_b, fused_ops=ops.split(), leakyrelu_alpha=0.1
    )  # fmt: skip


def _reference(a: Any, b: Any, *args: Any, ops: str, transpose_b: bool = False) -> Any:
    rest = [x.astype(np.float64) for x in args]
    y = a.astype(np.float64) @ (b.T if transpose_b else b).astype(np.float64)
    for name in ops.split():
        y = y + rest.pop(0) if name == "BiasAdd" else ACTIVATIONS[name](y)
    return y.astype(a.dtype)


PAIR = (real(2, 3), real(3, 4))
case(
    "_FusedMatMul",
    _fused,
    _reference,
    samples=[
        Args(*PAIR, ops=""),
        Args(*PAIR, ops="Relu"),
        Args(*PAIR, real(4), ops="BiasAdd"),
        Args(real(2, 3), real(4, 3), real(4), ops="BiasAdd Tanh", transpose_b=True),
        Args(real(0, 3), real(3, 4), real(4), ops="BiasAdd Relu"),
        Args(real(2, 0), real(0, 4), real(4), ops="BiasAdd Relu"),
        Args(real(5, 40), real(40, 300), real(300), ops="BiasAdd Relu"),
        *(Args(*PAIR, real(4), ops=f"BiasAdd {name}") for name in ACTIVATIONS),
    ],
    dtypes=FLOATS,
    tolerance=2e-4,
    bad=[
        Bad(Args(*PAIR, real(3), ops="BiasAdd"), match="[3]"),
        Bad(Args(*PAIR, real(1, 4), ops="BiasAdd"), match="[1,4]"),
        Bad(Args(*PAIR, ops="BiasAdd"), match="1 arguments, got 0"),
        Bad(Args(*PAIR, real(4), ops="Relu BiasAdd"), match="BiasAdd"),
        Bad(Args(*PAIR, ops="Softmax"), match="Softmax"),
        Bad(Args(real(2, 3), real(4, 5), ops="Relu"), match="3"),
    ],
)

covered_elsewhere("It changes a variable: tests/passes/test_fuse_updates.py.", "_MatMulGradientDescent")
