"""Cases of reading and changing shapes."""

from __future__ import annotations

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real
from thalweg.graph.apply import apply

ALL = "bool uint8 int16 float16 float32 float64 complex128 string"
i32, i64 = np.int32, np.int64


def _ints(*values: int) -> np.ndarray:
    return np.array(values, i32)


case(
    "Shape",
    lambda x, out_type=tf.int32: tf.shape(x, out_type=out_type),
    lambda x, out_type=tf.int32: np.array(np.shape(x), out_type.as_numpy_dtype),
    samples=[Args(real(2, 3)), Args(real()), Args(real(0, 4), out_type=tf.int64), Args(real(1, 1, 2, 1, 1, 3))],
    dtypes=ALL,
)
case(
    "ShapeN",
    lambda x, y: tf.shape_n([x, y]),
    lambda x, y: [np.array(np.shape(x), i32), np.array(np.shape(y), i32)],
    samples=[Args(real(2, 3), real()), Args(real(0), real(4, 1, 2))],
)
case(
    "Size",
    lambda x, out_type=tf.int32: tf.size(x, out_type=out_type),
    lambda x, out_type=tf.int32: np.array(np.size(x), out_type.as_numpy_dtype),
    samples=[Args(real(2, 3)), Args(real()), Args(real(0, 4), out_type=tf.int64)],
    dtypes=ALL,
)
case(
    "Rank",
    tf.rank,
    lambda x: np.array(np.ndim(x), i32),
    samples=[Args(real(2, 3)), Args(real()), Args(real(1, 1, 2, 1, 1, 3))],
)
case(
    "Reshape",
    tf.reshape,
    lambda x, shape: np.reshape(x, tuple(shape)),
    samples=[
        Args(real(2, 3), _ints(3, 2)),
        Args(real(2, 3), [-1]),
        Args(real(4, 3), [2, -1, 3]),
        Args(real(), _ints(1, 1)),
        Args(real(1, 1), np.zeros([0], i32)),
        Args(real(0, 3), [3, 0, 5]),
        Args(real(0, 3), np.array([-1, 3], i64)),
    ],
    dtypes=ALL,
    order=2,
    bad=[
        Bad(Args(real(2, 3), _ints(4, 2)), match="6"),
        Bad(Args(real(2, 3), _ints(-1, -1)), match="-1"),
        Bad(Args(real(2, 3), _ints(-1, 4)), match="4"),
        Bad(Args(real(2, 3), _ints(-2, 3)), match="-2"),
        Bad(Args(real(2, 3), np.array([[6]], i32)), match="1-D"),
        Bad(Args(real(0, 3), _ints(-1, 0)), match="infer"),
        Bad(Args(real(2, 3), np.array([2**40, 2**40], i64)), match="overflow"),
    ],
)
case(
    "ExpandDims",
    tf.expand_dims,
    lambda x, axis: np.expand_dims(x, int(axis)),
    samples=[Args(real(2, 3), np.array(n, i32)) for n in (0, 1, 2, -1, -3)] + [Args(real(), 0), Args(real(0), -1)],
    dtypes=ALL,
    order=2,
    bad=[
        Bad(Args(real(2, 3), np.array(3, i32)), match="3"),
        Bad(Args(real(2, 3), np.array(-4, i32)), match="-4"),
        Bad(Args(real(2, 3), _ints(0, 1)), match="single"),
    ],
)
case(
    "Squeeze",
    tf.squeeze,
    lambda x, axis=None: np.squeeze(x, None if axis is None else tuple(axis)),
    samples=[
        Args(real(1, 3, 1)),
        Args(real(1, 3, 1), axis=[0]),
        Args(real(1, 3, 1), axis=[-1, 0]),
        Args(real()),
        Args(real(1, 0)),
    ],
    dtypes=ALL,
    order=2,
    bad=[Bad(Args(real(1, 3), axis=[1]), match="3"), Bad(Args(real(1, 3), axis=[2]), match="2")],
)
case(
    "EnsureShape",
    tf.ensure_shape,
    lambda x, shape: x,
    samples=[Args(real(2, 3), [2, None]), Args(real(), []), Args(real(0, 2), None)],
    dtypes=ALL,
    order=1,
    bad=[Bad(Args(real(2, 3), [2, 4]), match="[2,4]"), Bad(Args(real(2, 3), [None]), match="[2,3]")],
)
case(
    "BroadcastArgs",
    tf.broadcast_dynamic_shape,
    lambda a, b: np.array(np.broadcast_shapes(tuple(a), tuple(b)), a.dtype),
    samples=[
        Args(_ints(2, 1), _ints(3)),
        Args(_ints(), _ints(0, 1)),
        Args(np.array([5, 1, 4], i64), np.array([6, 1], i64)),
    ],
    dtypes="float32",
    bad=[Bad(Args(_ints(2, 3), _ints(2)), match="[2,3]"), Bad(Args(_ints(-1), _ints(1)), match="-1")],
)
case(
    "BroadcastGradientArgs",
    lambda a, b: list(apply("BroadcastGradientArgs", a, b)),
    lambda a, b: [_summed(a, b), _summed(b, a)],
    samples=[
        Args(_ints(2, 1), _ints(3)),
        Args(_ints(), _ints(4, 1)),
        Args(_ints(2, 3), _ints(2, 3)),
        Args(_ints(), _ints()),
    ],
    dtypes="float32",
    bad=[Bad(Args(_ints(2, 3), _ints(2)), match="[2,3]")],
)


def _summed(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    rank = max(len(a), len(b))
    missing = rank - len(a)
    return np.array([i for i in range(rank) if i < missing or a[i - missing] == 1], i32)


case(
    "ConcatOffset",
    lambda axis, a, b: apply("ConcatOffset", axis, [a, b]),
    lambda axis, a, b: [np.zeros_like(a), np.where(np.arange(len(a)) == axis % len(a), a, 0).astype(i32)],
    samples=[Args(np.array(1, i32), _ints(2, 3), _ints(2, 5)), Args(np.array(-1, i32), _ints(2, 3), _ints(2, 5))],
    dtypes="float32",
    bad=[
        Bad(Args(np.array(1, i32), _ints(2, 3), _ints(4, 5)), match="[4,5]"),
        Bad(Args(np.array(2, i32), _ints(2, 3), _ints(2, 5)), match="2"),
    ],
)
case(
    "InvertPermutation",
    tf.invert_permutation,
    lambda x: np.argsort(x).astype(x.dtype),
    samples=[Args(_ints(2, 0, 1)), Args(np.zeros([0], i32)), Args(np.array([1, 0], i64))],
    dtypes="float32",
    bad=[
        Bad(Args(_ints(0, 3, 1)), match="3"),
        Bad(Args(_ints(0, 0)), match="duplicated"),
        Bad(Args(_ints(0, -1)), match="-1"),
        Bad(Args(np.array([[0]], i32)), match="1D"),
    ],
)
