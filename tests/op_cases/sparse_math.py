"""Cases of arithmetic with sparse values, against their dense forms."""

from __future__ import annotations

from typing import Any

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real
from tests.op_cases.sparse import BROKEN, CUBE, INDICES, NONE, SHAPE, THREE_D, broken, dense, parts

OTHER = np.array([[0, 1], [0, 2], [1, 2]], np.int64)


def _sparse(x: np.ndarray, present: np.ndarray) -> list[Any]:
    """The parts of the elements of `x` that are present."""
    at = np.argwhere(present)
    return [at, x[tuple(at.T)], np.array(x.shape)]


def _present(indices: np.ndarray, shape: np.ndarray) -> np.ndarray:
    out = np.zeros(tuple(shape), bool)
    out[tuple(indices.T)] = True
    return out


def _adjoint(x: np.ndarray, flag: bool) -> np.ndarray:
    return np.conj(x.T) if flag else x


def _matmul(i: Any, v: Any, s: Any, b: np.ndarray, adjoint_a: bool = False, adjoint_b: bool = False) -> np.ndarray:
    wide = np.float64 if v.dtype.kind not in "iucf" or v.dtype.itemsize == 2 else v.dtype
    product = _adjoint(dense(i, v, s).astype(wide), adjoint_a) @ _adjoint(b.astype(wide), adjoint_b)
    return product.astype(v.dtype)


_PRODUCTS = [
    Args(INDICES, real(3), SHAPE, real(3, 4)),
    Args(INDICES, real(3), SHAPE, real(2, 4), adjoint_a=True),
    Args(INDICES, real(3), SHAPE, real(4, 3), adjoint_b=True),
    Args(INDICES, real(3), SHAPE, real(4, 2), adjoint_a=True, adjoint_b=True),
    Args(INDICES[[2, 0, 2]], real(3), SHAPE, real(3, 1)),
    Args(NONE, real(0), SHAPE, real(3, 2)),
    Args(INDICES, real(3), SHAPE, real(3, 0)),
]
case(
    "SparseTensorDenseMatMul",
    lambda i, v, s, b, **k: tf.sparse_tensor_dense_matmul(tf.SparseTensor(i, v, s), b, **k),
    _matmul,
    samples=_PRODUCTS,
    dtypes="float16 bfloat16 float32 float64 int32 complex64 complex128",
    bad=[
        Bad(Args(INDICES, real(3), SHAPE, real(2, 4)), match="2"),
        Bad(Args(INDICES, real(3), SHAPE, real(3)), match="matrix"),
        Bad(Args(THREE_D, real(3), CUBE, real(2, 2)), match="matrix"),
        *broken(real(3, 4)),
    ],
)
case(
    "SparseTensorDenseMatMul",
    lambda i, v, s, b, **k: tf.sparse_tensor_dense_matmul(tf.SparseTensor(i, v, s), b, **k),
    _matmul,
    samples=_PRODUCTS[:5],
    order=2,
)
case(
    "SparseTensorDenseMatMul",
    lambda i, v, s, b: tf.sparse_tensor_dense_matmul(b, tf.SparseTensor(i, v, s)),
    lambda i, v, s, b: b @ dense(i, v, s),
    samples=[Args(INDICES, real(3), SHAPE, real(4, 2))],
    dtypes="float64 complex128",
    notes="dense times sparse",
)


def _pair(call: Any) -> Any:
    def run(i: Any, v: Any, s: Any, j: Any, w: Any, t: Any, **kwargs: Any) -> Any:
        return parts(call(tf.SparseTensor(i, v, s), tf.SparseTensor(j, w, t), **kwargs))

    return run


def _add(i: Any, v: Any, s: Any, j: Any, w: Any, t: Any, threshold: float = 0.0) -> Any:
    total = dense(i, v, s) + dense(j, w, t)
    return _sparse(total, (_present(i, s) | _present(j, t)) & (np.abs(total) >= threshold))


_PAIRS = [
    Args(INDICES, real(3), SHAPE, OTHER, real(3), SHAPE),
    Args(INDICES, real(3), SHAPE, NONE, real(0), SHAPE),
    Args(THREE_D, real(3), CUBE, THREE_D[1:], real(2), CUBE),
]
_BAD_PAIRS = [
    Bad(Args(INDICES, real(3), SHAPE, INDICES, real(3), np.array([2, 4], np.int64)), match="[2,4]"),
    *[Bad(Args(INDICES, real(3), SHAPE, *args.args)) for args in BROKEN],
    *[Bad(Args(*args.args, INDICES, real(3), SHAPE)) for args in BROKEN],
]
case(
    "SparseAdd",
    _pair(tf.sparse_add),
    _add,
    samples=[*_PAIRS, Args(INDICES, real(3), SHAPE, OTHER, real(3), SHAPE, threshold=1.0)],
    dtypes="float32 float64 int32 complex64",
    bad=_BAD_PAIRS,
)
case(
    "SparseAdd",
    lambda *a: _pair(tf.sparse_add)(*a)[1],
    lambda *a: _add(*a)[1],
    samples=_PAIRS,
    order=1,
)


def _add_grad(grad: np.ndarray, a: np.ndarray, b: np.ndarray, total: np.ndarray) -> Any:
    places = {tuple(row): g for row, g in zip(total.tolist(), grad, strict=True)}
    return [np.array([places.get(tuple(row), 0) for row in x.tolist()], grad.dtype) for x in (a, b)]


case(
    "SparseAddGrad",
    lambda g, a, b, t: tf.nest.flatten(
        tf.raw_ops.SparseAddGrad(backprop_val_grad=g, a_indices=a, b_indices=b, sum_indices=t)
    ),
    _add_grad,
    samples=[Args(real(2), INDICES, OTHER, INDICES[:2])],
    bad=[
        Bad(Args(real(3), INDICES, OTHER, INDICES[:2]), match="3 gradients"),
        Bad(Args(real(2), INDICES, THREE_D, INDICES[:2]), match="columns"),
    ],
)
case(
    "SparseTensorDenseAdd",
    lambda i, v, s, b: tf.sparse_add(tf.SparseTensor(i, v, s), b),
    lambda i, v, s, b: dense(i, v, s) + b,
    samples=[
        Args(INDICES, real(3), SHAPE, real(2, 3)),
        Args(INDICES[[0, 0]], real(2), SHAPE, real(2, 3)),
        Args(NONE, real(0), SHAPE, real(2, 3)),
    ],
    bad=[Bad(Args(INDICES, real(3), SHAPE, real(3, 2)), match="[3,2]"), *broken(real(2, 3))],
    order=2,
)
for _op, _call, _choose in (
    ("SparseSparseMaximum", tf.sparse_maximum, np.maximum),
    ("SparseSparseMinimum", tf.sparse_minimum, np.minimum),
):
    case(
        _op,
        _pair(_call),
        lambda i, v, s, j, w, t, choose=_choose: _sparse(
            choose(dense(i, v, s), dense(j, w, t)), _present(i, s) | _present(j, t)
        ),
        samples=_PAIRS,
        dtypes="float32 int64",
        bad=_BAD_PAIRS,
    )


def _cwise(function: Any) -> Any:
    def reference(i: np.ndarray, v: np.ndarray, s: np.ndarray, d: np.ndarray) -> np.ndarray:
        return function(v, np.broadcast_to(d, tuple(s))[tuple(i.T)]).astype(v.dtype)

    return reference


_DENSES = [
    Args(INDICES, real(3), SHAPE, real(2, 3, low=1, high=3)),
    Args(INDICES, real(3), SHAPE, real(3, low=1, high=3)),
    Args(INDICES, real(3), SHAPE, real(2, 1, low=1, high=3)),
    Args(INDICES, real(3), SHAPE, real(low=1, high=3)),
]
for _op, _function in (
    ("SparseDenseCwiseMul", np.multiply),
    ("SparseDenseCwiseDiv", np.divide),
    ("SparseDenseCwiseAdd", np.add),
):
    case(
        _op,
        lambda i, v, s, d, op=_op: getattr(tf.raw_ops, op)(sp_indices=i, sp_values=v, sp_shape=s, dense=d),
        _cwise(_function),
        samples=[*_DENSES, Args(NONE, real(0), SHAPE, real(2, 3))],
        bad=[
            Bad(Args(INDICES, real(3), SHAPE, real(2)), match="broadcast"),
            Bad(Args(INDICES, real(3), SHAPE, real(1, 2, 3)), match="broadcast"),
            *broken(real(2, 3)),
        ],
        order=2,
    )
case(
    "SparseDenseCwiseMul",
    lambda i, v, s, d: (
        lambda x: [(x * d).values, (d * x).values, (x / d).values, x + (d + tf.zeros([2, 3], v.dtype))]
    )(tf.SparseTensor(i, v, s)),
    lambda i, v, s, d: [
        _cwise(np.multiply)(i, v, s, d),
        _cwise(np.multiply)(i, v, s, d),
        _cwise(np.divide)(i, v, s, d),
        dense(i, v, s) + d,
    ],
    samples=_DENSES[:2],
    notes="the operators",
)


def _softmax(i: np.ndarray, v: np.ndarray, s: np.ndarray) -> np.ndarray:
    out = np.zeros(len(v))
    rows = [tuple(row[:-1]) for row in i.tolist()]
    for row in set(rows):
        mine = [k for k, other in enumerate(rows) if other == row]
        powers = np.exp(v[mine].astype(np.float64) - v[mine].max())
        out[mine] = powers / powers.sum()
    return out.astype(v.dtype)


case(
    "SparseSoftmax",
    lambda *a: tf.sparse_softmax(tf.SparseTensor(*a)).values,
    _softmax,
    samples=[Args(INDICES, real(3), SHAPE), Args(THREE_D, real(3), CUBE), Args(NONE, real(0), SHAPE)],
    dtypes="float16 float32 float64",
    bad=[Bad(Args(np.array([[0]]), real(1), np.array([3])), match="rank 2"), *broken()],
    order=2,
)


def _reduce(largest: bool) -> Any:
    def reference(i: Any, v: Any, s: Any, axis: Any = None, keepdims: bool = False) -> np.ndarray:
        axes = None if axis is None else tuple(np.ravel(axis).tolist())
        if not largest:
            return np.asarray(dense(i, v, s).sum(axes, keepdims=keepdims)).astype(v.dtype)
        low = np.full(tuple(s), -np.inf)
        np.maximum.at(low, tuple(i.T), v.astype(np.float64))
        out = np.asarray(low.max(axes, keepdims=keepdims, initial=-np.inf))
        return np.where(np.isneginf(out), 0, out).astype(v.dtype)

    return reference


_REDUCED = [
    Args(INDICES, real(3), SHAPE),
    Args(INDICES, real(3), SHAPE, axis=1),
    Args(INDICES, real(3), SHAPE, axis=[0], keepdims=True),
    Args(THREE_D, real(3), CUBE, axis=[-1, 0]),
    Args(INDICES[[0, 0, 2]], real(3), SHAPE, axis=0),
    Args(NONE, real(0), SHAPE, axis=0),
    Args(INDICES, real(3), SHAPE, axis=[]),
]
_BAD_AXES = [Bad(Args(INDICES, real(3), SHAPE, axis=2), match="2"), *broken(axis=0)]
for _op, _call, _largest in (
    ("SparseReduceSum", tf.sparse_reduce_sum, False),
    ("SparseReduceMax", tf.sparse_reduce_max, True),
):
    case(
        _op,
        lambda i, v, s, call=_call, **k: call(tf.SparseTensor(i, v, s), **k),
        _reduce(_largest),
        samples=_REDUCED,
        dtypes="float32 float64 bfloat16 int32",
        bad=_BAD_AXES,
    )
case(
    "SparseReduceSum",
    lambda i, v, s, **k: tf.sparse_reduce_sum(tf.SparseTensor(i, v, s), **k),
    _reduce(False),
    samples=_REDUCED[:6],
    order=2,
)
for _op, _call, _largest in (
    ("SparseReduceSumSparse", tf.sparse_reduce_sum_sparse, False),
    ("SparseReduceMaxSparse", tf.sparse_reduce_max_sparse, True),
):
    case(
        _op,
        lambda i, v, s, call=_call, **k: tf.sparse_tensor_to_dense(call(tf.SparseTensor(i, v, s), **k)),
        _reduce(_largest),
        samples=_REDUCED[1:5],
        dtypes="float32 int64",
        bad=_BAD_AXES,
    )
