"""Cases of rarely used ops: special functions, tridiagonal systems, patches of volumes, filters, block cells."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

import thalweg as tf
from tests.op_cases import Args, Bad, case, covered_elsewhere, real
from thalweg.graph.apply import apply, apply_one

for _op, _function in (
    ("BesselJ0", special.j0), ("BesselJ1", special.j1), ("BesselY0", special.y0), ("BesselY1", special.y1),
    ("BesselK0", special.k0), ("BesselK0e", special.k0e), ("BesselK1", special.k1), ("BesselK1e", special.k1e),
    ("BesselI0", special.i0), ("BesselI1", special.i1), ("Dawsn", special.dawsn), ("Expint", special.expi),
    ("FresnelCos", lambda x: special.fresnel(x)[1]), ("FresnelSin", lambda x: special.fresnel(x)[0]),
    ("Spence", special.spence),
):  # fmt: skip
    case(
        _op,
        lambda x, op=_op: apply_one(op, x),
        _function,
        samples=[Args(real(3, 4, low=0.2, high=0.9)), Args(real(2, low=1.5, high=4.0)), Args(real(0))],
        order=1,
    )


def _matrix(diagonals: np.ndarray) -> np.ndarray:
    upper, main, lower = diagonals
    return np.diag(main) + np.diag(upper[:-1], 1) + np.diag(lower[1:], -1)


_DOMINANT = np.array([[[1.0, 2.0, 9.0], [5.0, 6.0, 7.0], [9.0, 1.0, 2.0]], [[2.0, 1.0, 0], [6, 5, 4], [0, 1, 1.0]]])
case(
    "TridiagonalSolve",
    lambda d, r: apply_one("TridiagonalSolve", d, r),
    lambda d, r: np.stack([np.linalg.solve(_matrix(a), b) for a, b in zip(d, r, strict=True)]),
    samples=[Args(_DOMINANT, real(2, 3, 2))],
    dtypes="float64",
    order=1,
    bad=[
        Bad(Args(_DOMINANT[:, :2], real(2, 3, 2)), match="3, M", dtype="float64"),
        Bad(Args(_DOMINANT, real(2, 4, 2)), match="fit", dtype="float64"),
        Bad(Args(np.zeros((1, 3, 2)), real(1, 2, 1)), match="singular", dtype="float64"),
    ],
)
case(
    "TridiagonalMatMul",
    lambda u, m, w, r: apply_one("TridiagonalMatMul", u, m, w, r),
    lambda u, m, w, r: np.stack([_matrix(np.concatenate(p[:3])) @ p[3] for p in zip(u, m, w, r, strict=True)]),
    samples=[Args(real(2, 1, 3), real(2, 1, 3), real(2, 1, 3), real(2, 3, 2))],
    order=1,
    bad=[Bad(Args(real(2, 1, 2), real(2, 1, 3), real(2, 1, 3), real(2, 3, 2)), match="superdiag")],
)


def _patches(x: np.ndarray, k: list[int], s: list[int], padding: str) -> np.ndarray:
    sizes = [-(-n // b) if padding == "SAME" else -(-(n - a + 1) // b) for n, a, b in zip(x.shape, k, s, strict=True)]
    before = [max((o - 1) * b + a - n, 0) // 2 for o, a, b, n in zip(sizes, k, s, x.shape, strict=True)]
    out = np.zeros([x.shape[0], *sizes[1:4], math.prod(k), x.shape[4]], x.dtype)
    for b, *place in np.ndindex(x.shape[0], *sizes[1:4]):
        for number, inner in enumerate(np.ndindex(*k[1:4])):
            at = [p * s[i] + inner[i - 1] - before[i] for i, p in enumerate(place, start=1)]
            if all(0 <= a < n for a, n in zip(at, x.shape[1:4], strict=True)):
                out[(b, *place, number)] = x[(b, *at)]
    return out.reshape(*out.shape[:4], math.prod(out.shape[4:]))


case(
    "ExtractVolumePatches",
    lambda x, k, s, padding: tf.extract_volume_patches(x, k, s, padding),
    _patches,
    samples=[
        Args(real(2, 3, 4, 5, 2), [1, 2, 2, 3, 1], [1, 1, 2, 2, 1], "VALID"),
        Args(real(1, 3, 4, 5, 1), [1, 2, 3, 2, 1], [1, 2, 1, 2, 1], "SAME"),
        Args(real(0, 3, 4, 5, 1), [1, 2, 3, 2, 1], [1, 2, 1, 2, 1], "SAME"),
    ],
    dtypes="float32 float64 int32 uint8",
    order=1,
    bad=[
        Bad(Args(real(3, 4, 5, 1), [1, 2, 3, 2, 1], [1, 2, 1, 2, 1], "SAME"), match="5 dim"),
        Bad(Args(real(1, 3, 4, 5, 1), [1, 0, 3, 2, 1], [1, 2, 1, 2, 1], "SAME"), match="ksizes"),
    ],
)
case(
    "UnravelIndex",
    tf.unravel_index,
    lambda i, d: np.array(np.unravel_index(i.reshape(-1) if i.ndim else i, d), i.dtype),
    samples=[Args(np.array([22, 41, 37]), np.array([7, 6])), Args(np.array(5), np.array([2, 3]))],
    dtypes="float32",
    bad=[
        Bad(Args(np.array([42]), np.array([7, 6])), match="out of bounds"),
        Bad(Args(np.array([1]), np.array([0, 6])), match="positive"),
    ],
)


def _identity_or_average(x: np.ndarray, size: np.ndarray, scale: np.ndarray, move: np.ndarray, kind: str) -> np.ndarray:
    """What a triangle filter does at scale 1, and a box at scale 1/2."""
    if kind == "triangle":
        return x.astype(np.float32)
    pairs = x.reshape(x.shape[0], size[0], 2, size[1], 2, x.shape[3])
    return pairs.mean((2, 4)).astype(np.float32)


_ONE, _HALF, _STAY = (np.array([v, v], np.float32) for v in (1.0, 0.5, 0.0))
case(
    "ScaleAndTranslate",
    lambda x, size, scale, move, kind: tf.image.scale_and_translate(x, size, scale, move, kind),
    _identity_or_average,
    samples=[
        Args(real(2, 4, 6, 3), np.array([4, 6], np.int32), _ONE, _STAY, "triangle"),
        Args(real(1, 4, 6, 2), np.array([2, 3], np.int32), _HALF, _STAY, "box"),
    ],
    dtypes="float32 int32",
    bad=[
        Bad(Args(real(2, 4, 6, 3), np.array([4, 0], np.int32), _ONE, _STAY, "triangle"), match="from 1"),
        Bad(Args(real(2, 4, 6, 3), np.array([4, 6], np.int32), _STAY, _STAY, "triangle"), match="greater than 0"),
        Bad(Args(real(2, 4, 6, 3), np.array([4, 6], np.int32), _ONE, _STAY, "round"), match="kernel_type"),
    ],
)
case(
    "ScaleAndTranslateGrad",
    lambda g, x, scale, move: apply_one("ScaleAndTranslateGrad", g, x, scale, move, kernel_type="box"),
    lambda g, x, scale, move: np.repeat(np.repeat(g, 2, 1), 2, 2) / 4,
    samples=[Args(real(1, 2, 3, 2), real(1, 4, 6, 2), _HALF, _STAY)],
    dtypes="float32",
    bad=[Bad(Args(real(1, 2, 3, 1), real(1, 4, 6, 2), _HALF, _STAY), match="fit")],
)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _lstm(x: Any, cs: Any, h: Any, w: Any, wci: Any, wcf: Any, wco: Any, b: Any, bias: float = 1.0) -> list[np.ndarray]:
    i, ci, f, o = np.split(np.concatenate([x, h], 1) @ w + b, 4, 1)
    i, ci, f = _sigmoid(i + cs * wci), np.tanh(ci), _sigmoid(f + bias + cs * wcf)
    new = np.clip(i * ci + f * cs, -3, 3)
    o = _sigmoid(o + new * wco)
    return [i, new, f, o, ci, np.tanh(new), o * np.tanh(new)]


_CELL = (real(2, 4), real(2, 4), real(7, 16), real(4), real(4), real(4), real(16))
case(
    "LSTMBlockCell",
    lambda *parts: list(apply("LSTMBlockCell", *parts, use_peephole=True)),
    _lstm,
    samples=[Args(real(2, 3), *_CELL)],
    dtypes="float32",
    bad=[Bad(Args(real(2, 5), *_CELL), match="w must"), Bad(Args(real(3, 3), *_CELL), match="rows")],
)


def _lstm_loop(n: Any, x: Any, cs: Any, h: Any, *rest: Any) -> list[np.ndarray]:
    out = np.zeros((7, len(x), *cs.shape), np.float32)
    for t in range(int(n)):
        out[:, t] = _lstm(x[t], cs, h, *rest)
        cs, h = out[1, t], out[6, t]
    return list(out)


def _second_order(w: np.ndarray) -> np.ndarray:
    i, ci, f, o = np.split(w, 4, -1)
    return np.concatenate([i, f, ci, o], -1)


case(
    "BlockLSTM",
    lambda *parts: list(apply("BlockLSTM", *parts, use_peephole=True)),
    _lstm_loop,
    samples=[Args(np.array(3), real(4, 2, 3), *_CELL), Args(np.array(0), real(2, 2, 3), *_CELL)],
    dtypes="float32",
    bad=[Bad(Args(np.array(5), real(4, 2, 3), *_CELL), match="seq_len_max")],
)
case(
    "BlockLSTMV2",
    lambda *parts: list(apply("BlockLSTMV2", *parts, use_peephole=True, cell_clip=3.0)),
    lambda *p: _lstm_loop(*p[:4], _second_order(p[4]), *p[5:8], _second_order(p[8]) - np.eye(4).repeat(4, 1)[2]),
    samples=[Args(np.array(3), real(4, 2, 3), *_CELL)],
    dtypes="float32",
    bad=[Bad(Args(np.array(-1), real(4, 2, 3), *_CELL), match="seq_len_max")],
)


def _gru(x: Any, h: Any, w_ru: Any, w_c: Any, b_ru: Any, b_c: Any) -> list[np.ndarray]:
    r, u = np.split(_sigmoid(np.concatenate([x, h], 1) @ w_ru + b_ru), 2, 1)
    c = np.tanh(np.concatenate([x, r * h], 1) @ w_c + b_c)
    return [r, u, c, u * h + (1 - u) * c]


case(
    "GRUBlockCell",
    lambda *parts: list(apply("GRUBlockCell", *parts)),
    _gru,
    samples=[Args(real(2, 3), real(2, 4), real(7, 8), real(7, 4), real(8), real(4))],
    dtypes="float32",
    bad=[Bad(Args(real(2, 3), real(2, 4), real(7, 8), real(7, 4), real(8), real(5)), match="b_c")],
)

covered_elsewhere(
    "their inputs are outputs of the cells; tests/ops/test_block_cells.py compares them with differences",
    "BlockLSTMGrad", "BlockLSTMGradV2", "LSTMBlockCellGrad", "GRUBlockCellGrad",
)  # fmt: skip

case(
    "Empty",
    lambda shape: apply_one("Empty", shape, dtype=tf.float32),
    None,
    samples=[Args(np.array([2, 3], np.int32)), Args(np.zeros(0, np.int32))],
    dtypes="float32",
    bad=[Bad(Args(np.array([-1], np.int32)), match="negative")],
)


def _replaced(x: np.ndarray, i: np.ndarray, v: np.ndarray, sign: int) -> np.ndarray:
    out = x.copy()
    for row, value in zip(i, v, strict=True):
        out[row] = value if sign == 0 else out[row] + sign * value
    return out


for _op, _sign in (("InplaceUpdate", 0), ("InplaceAdd", 1), ("InplaceSub", -1)):
    case(
        _op,
        lambda x, i, v, op=_op: apply_one(op, x, i, v),
        lambda x, i, v, sign=_sign: _replaced(x, i, v, sign),
        samples=[Args(real(4, 2), np.array([3, 0, 3], np.int32), real(3, 2))],
        bad=[Bad(Args(real(4, 2), np.array([3, 0], np.int32), real(3, 2)), match="v must")],
    )
for _op in ("GuaranteeConst", "Snapshot"):
    case(_op, lambda x, op=_op: apply_one(op, x), lambda x: x, samples=[Args(real(2, 3)), Args(real())], order=2)
case(
    "QuantizeAndDequantizeV4",
    lambda x: apply_one("QuantizeAndDequantizeV4", x, -1.0, 1.0, range_given=True),
    lambda x: np.clip(np.round(x * 127), -127, 127) / 127,
    samples=[Args(real(3, 4, low=-0.99, high=0.99))],
    tolerance=1e-4,
)

_KEY, _COUNTER, _ALG = np.array([12345], np.uint64), np.array([0, 77], np.uint64), np.array(1, np.int32)
_SIZE = np.array([3, 5], np.int32)
_BAD_KEY = [
    Bad(Args(_SIZE, np.array([1, 2], np.uint64), _COUNTER, _ALG), match="key"),
    Bad(Args(_SIZE, _KEY, np.array([1], np.uint64), _ALG), match="counter"),
    Bad(Args(_SIZE, _KEY, _COUNTER, np.array(2, np.int32)), match="alg"),
]
for _op in ("StatelessRandomUniformV2", "StatelessRandomNormalV2", "StatelessTruncatedNormalV2",
            "StatelessRandomUniformFullIntV2"):  # fmt: skip
    case(_op, lambda *a, op=_op: apply_one(op, *a), None, samples=[Args(_SIZE, _KEY, _COUNTER, _ALG)],
         dtypes="float32", bad=_BAD_KEY)  # fmt: skip
case(
    "StatelessRandomUniformIntV2",
    lambda *a: apply_one("StatelessRandomUniformIntV2", *a),
    None,
    samples=[Args(_SIZE, _KEY, _COUNTER, _ALG, np.array(1), np.array(9))],
    dtypes="float32",
    bad=[Bad(Args(_SIZE, _KEY, _COUNTER, _ALG, np.array(9), np.array(9)), match="minval")],
)
case(
    "StatelessRandomUniformFullInt",
    lambda *a: apply_one("StatelessRandomUniformFullInt", *a),
    None,
    samples=[Args(_SIZE, np.array([1, 2]))],
    dtypes="float32",
    bad=[Bad(Args(_SIZE, np.array([1, 2, 3])), match="seed")],
)
for _op in ("StatelessRandomGetKeyCounter", "StatelessRandomGetKeyCounterAlg"):
    case(_op, lambda s, op=_op: list(apply(op, s)), None, samples=[Args(np.array([1, 2]))], dtypes="float32",
         bad=[Bad(Args(np.array([1])), match="seed")])  # fmt: skip
case("StatelessRandomGetAlg", lambda: apply_one("StatelessRandomGetAlg"), lambda: np.array(1, np.int32),
     samples=[Args()], dtypes="float32")  # fmt: skip
case(
    "SobolSample",
    tf.math.sobol_sample,
    lambda dim, count, skip: np.array(
        [[0.875, 0.875, 0.125], [0.625, 0.125, 0.875], [0.125, 0.625, 0.375], [0.1875, 0.3125, 0.9375]], np.float32
    )[:count, :dim],  # TensorFlow's
    samples=[
        Args(np.array(3, np.int32), np.array(4, np.int32), np.array(4, np.int32)),
        Args(np.array(2, np.int32), np.array(3, np.int32), np.array(4, np.int32)),
    ],
    dtypes="float32",
    bad=[
        Bad(Args(np.array(0, np.int32), np.array(4, np.int32), np.array(0, np.int32)), match="dim"),
        Bad(Args(np.array(2, np.int32), np.array(0, np.int32), np.array(0, np.int32)), match="num_results"),
        Bad(Args(np.array(2, np.int32), np.array(1, np.int32), np.array(-1, np.int32)), match="skip"),
    ],
)
