"""Cases of sparse values: conversions, order, joining, splitting, slicing, filling."""

from __future__ import annotations

from typing import Any

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real
from tests.op_cases.search import ALL_NUMBERS

INDICES = np.array([[0, 1], [1, 0], [1, 2]], np.int64)
SHAPE = np.array([2, 3], np.int64)
OUTSIDE = np.array([[0, 1], [1, 0], [1, 3]], np.int64)
NEGATIVE = np.array([[0, 1], [-1, 0], [1, 2]], np.int64)
NONE = np.zeros((0, 2), np.int64)
HUGE = np.array([2**62, 2**62], np.int64)
THREE_D = np.array([[0, 0, 1], [0, 1, 0], [1, 1, 1]], np.int64)
CUBE = np.array([2, 2, 2], np.int64)

# Invalid sparse values, which every op that takes indices, values and a dense shape must refuse.
BROKEN = [
    Args(OUTSIDE, real(3), SHAPE),
    Args(NEGATIVE, real(3), SHAPE),
    Args(INDICES, real(2), SHAPE),
    Args(INDICES, real(3), np.array([2, 3, 4], np.int64)),
    Args(INDICES, real(3), np.array([2, -3], np.int64)),
    Args(INDICES, real(3), HUGE),
    Args(INDICES[0], real(3), SHAPE),
    Args(INDICES, real(3, 1), SHAPE),
    Args(INDICES, real(3), SHAPE[None]),
]


def broken(*more: Any, **kwargs: Any) -> list[Bad]:
    """The broken sparse values, followed by further arguments."""
    return [Bad(Args(*args.args, *more, **kwargs)) for args in BROKEN]


def dense(indices: np.ndarray, values: np.ndarray, shape: np.ndarray) -> np.ndarray:
    """The dense form; repeated indices are summed."""
    out = np.zeros(tuple(shape), values.dtype)
    if out.dtype == object:
        out[...] = b""
    for at, value in zip(indices, values, strict=True):
        out[tuple(at)] = out[tuple(at)] + value
    return out


def parts(x: Any) -> list[Any]:
    """The three tensors of a SparseTensor."""
    return [x.indices, x.values, x.dense_shape]


def _to_dense(indices: np.ndarray, shape: np.ndarray, values: np.ndarray, default: Any = 0, **_: Any) -> np.ndarray:
    out = np.empty(tuple(shape), values.dtype)
    out[...] = b"" if out.dtype == object and np.ndim(default) == 0 and default == 0 else default
    rows = np.reshape(indices, (-1, len(shape)))
    for i, at in enumerate(rows):
        out[tuple(at)] = values if values.ndim == 0 else values[i]
    return out


_TO_DENSE = [
    Args(INDICES, SHAPE, real(3)),
    Args(INDICES, SHAPE, real()),
    Args(np.array([0, 2], np.int32), np.array([4], np.int32), real(2)),
    Args(np.array(2, np.int32), np.array([4], np.int32), real()),
    Args(NONE, SHAPE, real(0)),
    Args(NONE, np.array([0, 3], np.int64), real(0)),
    Args(THREE_D, CUBE, real(3)),
    Args(INDICES[::-1].copy(), SHAPE, real(3), validate_indices=False),
]
case(
    "SparseToDense",
    tf.sparse_to_dense,
    _to_dense,
    samples=_TO_DENSE,
    dtypes=ALL_NUMBERS + " string",
    bad=[
        Bad(Args(OUTSIDE, SHAPE, real(3)), match="indices[2] = [1,3] is out of bounds"),
        Bad(Args(NEGATIVE, SHAPE, real(3)), match="out of bounds"),
        Bad(Args(OUTSIDE, SHAPE, real(3), validate_indices=False), match="out of bounds"),
        Bad(Args(INDICES[::-1].copy(), SHAPE, real(3)), match="out of order"),
        Bad(Args(INDICES[[0, 0, 1]], SHAPE, real(3)), match="repeated"),
        Bad(Args(INDICES, SHAPE, real(2)), match="[2]"),
        Bad(Args(INDICES, np.array([2, 3, 4], np.int64), real(3)), match="3 elements"),
        Bad(Args(INDICES, np.array([2, -3], np.int64), real(3)), match="-3"),
        Bad(Args(INDICES, HUGE, real(3))),
        Bad(Args(INDICES[None], SHAPE, real(3)), match="[1,3,2]"),
    ],
)
case(
    "SparseToDense",
    tf.sparse_to_dense,
    _to_dense,
    samples=[Args(INDICES, SHAPE, real(3), real()), Args(INDICES, SHAPE, real(), real()), *_TO_DENSE[2:4]],
    order=2,
)
case(
    "SparseToDense",
    lambda i, v, s: tf.sparse_tensor_to_dense(tf.SparseTensor(i, v, s), default_value=None),
    dense,
    samples=[Args(INDICES, real(3), SHAPE)],
    dtypes="float32 bool string",
    notes="zero of each type is the default",
)


def _sorted(indices: np.ndarray, values: np.ndarray, shape: np.ndarray) -> Any:
    order = np.lexsort(indices.T[::-1]) if len(indices) else np.zeros(0, int)
    return [indices[order], values[order], shape]


_SHUFFLED = [
    Args(INDICES[[2, 0, 1]], real(3), SHAPE),
    Args(INDICES, real(3), SHAPE),
    Args(THREE_D[::-1].copy(), real(3), CUBE),
    Args(INDICES[[2, 0, 2]], real(3), SHAPE),
    Args(NONE, real(0), SHAPE),
]
case(
    "SparseReorder",
    lambda *x: parts(tf.sparse_reorder(tf.SparseTensor(*x))),
    _sorted,
    samples=_SHUFFLED,
    dtypes=ALL_NUMBERS + " string",
    bad=broken(),
)
case(
    "SparseReorder",
    lambda *x: tf.sparse_reorder(tf.SparseTensor(*x)).values,
    lambda *x: _sorted(*x)[1],
    samples=_SHUFFLED[:4],
    order=2,
)


def _transposed(indices: np.ndarray, values: np.ndarray, shape: np.ndarray, perm: Any = None) -> Any:
    perm = list(range(len(shape)))[::-1] if perm is None else perm
    return _sorted(indices[:, perm], values, shape[perm])


case(
    "SparseReorder",
    lambda i, v, s, **kwargs: parts(tf.sparse_transpose(tf.SparseTensor(i, v, s), **kwargs)),
    _transposed,
    samples=[Args(INDICES, real(3), SHAPE), Args(THREE_D, real(3), CUBE, perm=[1, 2, 0])],
    dtypes="float32",
)


def _reshaped(indices: np.ndarray, values: np.ndarray, shape: np.ndarray, new: Any) -> Any:
    sizes = np.zeros(tuple(shape)).reshape(tuple(new)).shape
    flat = np.ravel_multi_index(tuple(indices.T), tuple(shape)) if len(indices) else np.zeros(0, int)
    return [np.stack(np.unravel_index(flat, sizes), 1), values, np.array(sizes)]


def _long(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


case(
    "SparseReshape",
    lambda i, v, s, new: parts(tf.sparse_reshape(tf.SparseTensor(i, v, s), new)),
    _reshaped,
    samples=[
        Args(INDICES, real(3), SHAPE, _long(3, 2)),
        Args(INDICES, real(3), SHAPE, _long(-1)),
        Args(INDICES, real(3), SHAPE, [1, 6, -1]),
        Args(THREE_D, real(3), CUBE, np.array([4, 2], np.int32)),
        Args(NONE, real(0), SHAPE, _long(6)),
        Args(NONE, real(0), _long(0, 3), _long(3, 0, 2)),
    ],
    dtypes="float32",
    bad=[
        Bad(Args(INDICES, real(3), SHAPE, _long(4, 2)), match="8 elements"),
        Bad(Args(INDICES, real(3), SHAPE, _long(-1, -1)), match="-1"),
        Bad(Args(INDICES, real(3), SHAPE, _long(-2, 3)), match="-2"),
        Bad(Args(INDICES, real(3), SHAPE, _long(-1, 4)), match="4"),
        Bad(Args(NONE, real(0), _long(0, 3), _long(0, -1)), match="0"),
        *[Bad(Args(*b.args, _long(-1))) for b in BROKEN if b.args[1].shape == (3,)],
    ],
)


def _concat_call(i1: Any, v1: Any, s1: Any, i2: Any, v2: Any, s2: Any, axis: int = 0, **kwargs: Any) -> Any:
    return parts(tf.sparse_concat(axis, [tf.SparseTensor(i1, v1, s1), tf.SparseTensor(i2, v2, s2)], **kwargs))


def _concat(*args: Any, axis: int = 0, expand_nonconcat_dim: bool = False) -> Any:
    i1, v1, s1, i2, v2, s2 = args
    s1, s2 = s1.copy(), s2.copy()
    largest = np.maximum(s1, s2)
    moved = i2.copy()
    moved[:, axis] += s1[axis]
    largest[axis] = s1[axis] + s2[axis]
    return _sorted(np.concatenate([i1, moved]), np.concatenate([v1, v2]), largest)


_JOINED = [
    Args(INDICES, real(3), SHAPE, INDICES, real(3), SHAPE),
    Args(INDICES, real(3), SHAPE, INDICES, real(3), SHAPE, axis=1),
    Args(INDICES, real(3), SHAPE, NONE, real(0), _long(2, 5), axis=-1),
]
case(
    "SparseConcat",
    _concat_call,
    _concat,
    samples=[
        *_JOINED,
        Args(INDICES, real(3), SHAPE, _long(0, 3)[None], real(1), _long(1, 4), axis=0, expand_nonconcat_dim=True),
    ],
    dtypes="float32 int64 string",
    bad=[
        Bad(Args(INDICES, real(3), SHAPE, INDICES, real(3), SHAPE, axis=2), match="2"),
        Bad(Args(INDICES, real(3), SHAPE, INDICES, real(3), _long(2, 4), axis=0), match="[2,4]"),
        Bad(Args(INDICES, real(3), SHAPE, THREE_D, real(3), CUBE, axis=0)),
        *[Bad(Args(INDICES, real(3), SHAPE, *args.args)) for args in BROKEN],
    ],
)
case(
    "SparseConcat",
    lambda *a, **k: _concat_call(*a, **k)[1],
    lambda *a, **k: _concat(*a, **k)[1],
    samples=_JOINED,
    order=2,
)


def _split(indices: np.ndarray, values: np.ndarray, shape: np.ndarray, num_split: int, axis: int) -> Any:
    sizes = [shape[axis] // num_split + (i < shape[axis] % num_split) for i in range(num_split)]
    out, start = [], 0
    for size in sizes:
        inside = (indices[:, axis] >= start) & (indices[:, axis] < start + size)
        mine = indices[inside].copy()
        mine[:, axis] -= start
        part = shape.copy()
        part[axis] = size
        out += [mine, values[inside], part]
        start += size
    return out


case(
    "SparseSplit",
    lambda i, v, s, num_split, axis: [
        t for x in tf.sparse_split(sp_input=tf.SparseTensor(i, v, s), num_split=num_split, axis=axis) for t in parts(x)
    ],
    _split,
    samples=[
        Args(INDICES, real(3), SHAPE, 2, 1),
        Args(INDICES, real(3), SHAPE, 1, 0),
        Args(INDICES, real(3), SHAPE, 3, -1),
        Args(NONE, real(0), SHAPE, 2, 0),
    ],
    dtypes="float32 string",
    bad=[
        Bad(Args(INDICES, real(3), SHAPE, 4, 1), match="4"),
        Bad(Args(INDICES, real(3), SHAPE, 1, 2), match="2"),
        *broken(1, 0),
    ],
)


def _sliced(indices: np.ndarray, values: np.ndarray, shape: np.ndarray, start: Any, size: Any) -> Any:
    end = np.minimum(start + size, shape)
    inside = np.all((indices >= start) & (indices < end), 1)
    return [indices[inside] - start, values[inside], np.maximum(end - start, 0)]


def _slice_call(i: Any, v: Any, s: Any, start: Any, size: Any) -> Any:
    return parts(tf.sparse_slice(tf.SparseTensor(i, v, s), start, size))


_SLICES = [
    Args(INDICES, real(3), SHAPE, _long(0, 1), _long(5, 2)),
    Args(INDICES, real(3), SHAPE, _long(1, 0), _long(1, 3)),
    Args(INDICES, real(3), SHAPE, _long(1, 0), _long(1, 1)),
]
case(
    "SparseSlice",
    _slice_call,
    _sliced,
    samples=[
        *_SLICES,
        Args(INDICES, real(3), SHAPE, _long(7, 7), _long(1, 1)),
        Args(INDICES, real(3), SHAPE, _long(0, 0), _long(2**62, 2**63 - 1)),
        Args(NONE, real(0), SHAPE, _long(0, 0), _long(1, 1)),
    ],
    dtypes="float32 string",
    bad=[
        Bad(Args(INDICES, real(3), SHAPE, _long(-1, 0), _long(1, 1)), match="-1"),
        Bad(Args(INDICES, real(3), SHAPE, _long(0), _long(1)), match="2 elements"),
        *broken(_long(0, 0), _long(1, 1)),
    ],
)
case("SparseSlice", lambda *a: _slice_call(*a)[1], lambda *a: _sliced(*a)[1], samples=_SLICES, order=1)


def _slice_grad(grad: np.ndarray, indices: np.ndarray, start: np.ndarray, kept: np.ndarray) -> np.ndarray:
    rows = (kept + start).tolist()
    return np.array([grad[rows.index(r)] if r in rows else 0 for r in indices.tolist()], grad.dtype)


case(
    "SparseSliceGrad",
    lambda g, i, s, k: tf.raw_ops.SparseSliceGrad(
        backprop_val_grad=g, input_indices=i, input_start=s, output_indices=k
    ),
    _slice_grad,
    samples=[Args(real(2), INDICES, _long(1, 0), np.array([[0, 0], [0, 2]], np.int64))],
    bad=[
        Bad(Args(real(3), INDICES, _long(1, 0), np.array([[0, 0], [0, 2]], np.int64)), match="3 gradients"),
        Bad(Args(real(2), INDICES, _long(1), np.array([[0, 0], [0, 2]], np.int64)), match="start"),
    ],
)


def _filled(indices: np.ndarray, values: np.ndarray, shape: np.ndarray, default: Any) -> Any:
    rows = [([r, *[0] * (len(shape) - 1)], default) for r in range(shape[0]) if r not in indices[:, 0]]
    everything = sorted([*zip(indices.tolist(), values.tolist(), strict=True), *rows], key=lambda e: e[0][0])
    empty = np.array([r not in indices[:, 0] for r in range(shape[0])], bool)
    out = np.empty(len(everything), values.dtype)
    out[:] = [e[1] for e in everything]
    return [np.array([e[0] for e in everything], np.int64).reshape(-1, len(shape)), out, shape, empty]


def _fill_call(i: Any, v: Any, s: Any, default: Any) -> Any:
    filled, empty = tf.sparse_fill_empty_rows(tf.SparseTensor(i, v, s), default)
    return [*parts(filled), empty]


_FILL = [
    Args(np.array([[2, 1], [0, 1], [0, 0]], np.int64), real(3), _long(4, 3), real()),
    Args(INDICES, real(3), SHAPE, real()),
    Args(NONE, real(0), SHAPE, real()),
]
case(
    "SparseFillEmptyRows",
    _fill_call,
    _filled,
    samples=[*_FILL, Args(NONE, real(0), _long(0, 3), real())],
    dtypes="float32 int64 string bool",
    bad=[
        Bad(Args(INDICES, real(3), SHAPE, real(1)), match="scalar"),
        Bad(Args(np.zeros((1, 0), np.int64), real(1), _long(), real())),
        *broken(real()),
    ],
)
case(
    "SparseFillEmptyRows",
    lambda *a: _fill_call(*a)[1],
    lambda *a: _filled(*a)[1],
    samples=_FILL,
    order=1,
)
case(
    "SparseFillEmptyRowsGrad",
    lambda m, g: tf.nest.flatten(tf.raw_ops.SparseFillEmptyRowsGrad(reverse_index_map=m, grad_values=g)),
    lambda m, g: [g[m], np.delete(g, m).sum(dtype=g.dtype)],
    samples=[Args(_long(3, 0), real(5)), Args(_long(), real(2))],
    bad=[
        Bad(Args(_long(5), real(5)), match="5"),
        Bad(Args(_long(-1), real(5)), match="[0, 5)"),
        Bad(Args(_long(1)[None], real(5)), match="vectors"),
    ],
)
