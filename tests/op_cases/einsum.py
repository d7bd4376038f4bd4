"""Cases of einsum, tensordot and norm."""

from __future__ import annotations

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real


def _einsum(equation, *ranks):
    """A call with ranks made known, since einsum needs them."""

    def call(*tensors):
        for tensor, rank in zip(tensors, ranks, strict=True):
            tensor.set_shape([None] * rank)
        return tf.einsum(equation, *tensors)

    return call


for _equation, _sizes in (
    ("ij,jk->ik", ((2, 3), (3, 4))),
    ("ij,jk", ((2, 3), (3, 4))),
    ("ba", ((2, 3),)),
    ("bij,bjk->bik", ((5, 2, 3), (5, 3, 4))),
    ("bij,bjk->kbi", ((5, 2, 3), (5, 3, 4))),
    ("i,j->ij", ((2,), (3,))),
    ("i,i->", ((4,), (4,))),
    ("ij,ij->ij", ((2, 3), (2, 3))),
    ("ij,ij->j", ((2, 3), (2, 3))),
    ("ijk->", ((2, 3, 4),)),
    ("ijk->kj", ((2, 3, 4),)),
    ("ii->i", ((3, 3),)),
    ("ii", ((3, 3),)),
    ("iij,jk->ik", ((3, 3, 2), (2, 4))),
    ("...ij,...jk->...ik", ((5, 2, 3), (5, 3, 4))),
    ("...ij,jk->...ik", ((2, 5, 2, 3), (3, 4))),
    ("...ij,...jk->...ik", ((4, 1, 2, 3), (5, 3, 4))),
    ("i...,i...->...", ((3, 2), (3, 2))),
    ("ij,jk,kl->il", ((2, 3), (3, 4), (4, 2))),
    ("ab,bc,ad->cd", ((2, 3), (3, 4), (2, 5))),
    ("abc,adb->dac", ((2, 3, 4), (2, 5, 3))),
    ("ij,jk->ik", ((0, 3), (3, 4))),
    ("ij,jk->ik", ((2, 0), (0, 4))),
    (",ij->ij", ((), (2, 3))),
):
    case(
        "BatchMatMulV2",
        _einsum(_equation, *(len(s) for s in _sizes)),
        lambda *x, e=_equation: np.einsum(e, *x),
        samples=[Args(*(real(*s) for s in _sizes))],
        dtypes="float32 float64 complex64",
        order=2,
    )
    if "," in _equation and _equation[0] != ",":
        case(
            "Einsum",
            lambda *x, e=_equation: tf.raw_ops.Einsum(inputs=list(x), equation=e),
            lambda *x, e=_equation: np.einsum(e, *x),
            samples=[Args(*(real(*s) for s in _sizes))],
            dtypes="float32 float64",
            order=1,
        )
case(
    "Einsum",
    lambda x, y: tf.raw_ops.Einsum(inputs=[x, y], equation="ij,jk->ik"),
    lambda x, y: np.matmul(x, y),
    samples=[Args(real(2, 3), real(3, 4))],
    dtypes="int32 int64 complex128",
    bad=[Bad(Args(real(2, 3), real(4, 3))), Bad(Args(real(2, 3), real(3)))],
)


def _tensordot(axes):
    def call(a, b):
        a.set_shape([None] * 3)
        b.set_shape([None] * 3)
        return tf.tensordot(a, b, axes)

    return call


for _axes, _a, _b in (
    (1, (2, 3, 4), (4, 2, 3)),
    (2, (2, 3, 4), (3, 4, 5)),
    (0, (2, 1, 2), (1, 2, 3)),
    ([[1, 2], [1, 0]], (2, 3, 4), (4, 3, 5)),
    ([[-1], [0]], (2, 3, 4), (4, 3, 5)),
    ([1, 1], (2, 3, 4), (4, 3, 5)),
):
    case(
        "MatMul",
        _tensordot(_axes),
        lambda a, b, axes=_axes: np.tensordot(a, b, axes),
        samples=[Args(real(*_a), real(*_b))],
        order=2,
    )


def _np_norm(x, ord="euclidean", axis=None, keepdims=False):
    if axis is None:
        out = np.linalg.norm(x.ravel(), 2 if ord == "euclidean" else ord)
        return out.reshape([1] * x.ndim) if keepdims else out
    return np.linalg.norm(x, ("fro" if isinstance(axis, tuple) else 2) if ord == "euclidean" else ord, axis, keepdims)


def _norm(x, **kwargs):
    x.set_shape([None, None, None])
    return tf.norm(x, **kwargs)


case(
    "Sum",
    _norm,
    _np_norm,
    dtypes="float32 float64 complex64",
    order=1,
    samples=[
        Args(real(2, 3, 4)),
        Args(real(2, 3, 4), axis=1),
        Args(real(2, 3, 4), ord=1, axis=-1, keepdims=True),
        Args(real(2, 3, 4), ord=np.inf),
        Args(real(2, 3, 4), ord=3, axis=0),
        Args(real(2, 3, 4), axis=(0, 2)),
        Args(real(2, 3, 4), ord="fro", axis=(1, 2), keepdims=True),
        Args(real(2, 3, 4), ord=1, axis=(1, 2)),
        Args(real(2, 3, 4), ord=np.inf, axis=(-2, -1), keepdims=True),
    ],
)
case(
    "Svd",
    _norm,
    _np_norm,
    samples=[Args(real(2, 3, 4), ord=2, axis=(0, 2), keepdims=True), Args(real(2, 3, 4), ord=2, axis=(2, 1))],
    order=1,
)
