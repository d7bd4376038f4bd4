"""Cases of one_hot, image patches, and the functions composed of array ops."""

from __future__ import annotations

from typing import Any

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real
from thalweg.graph.apply import apply

ALL = "bool uint8 int16 float16 float32 float64 complex128 string"
i32, i64 = np.int32, np.int64


def _one_hot(indices: np.ndarray, depth: Any, on: Any, off: Any, axis: int = -1) -> np.ndarray:
    hot = np.expand_dims(indices, -1) == np.arange(int(depth))
    dtype = np.asarray(on).dtype
    out = np.empty(hot.shape, dtype)
    out[hot], out[~hot] = np.asarray(on)[()], np.asarray(off)[()]
    return np.moveaxis(out, -1, axis)


case(
    "OneHot",
    lambda i, depth, on, off, axis=-1: tf.one_hot(i, depth, on, off, axis),
    _one_hot,
    samples=[
        Args(np.array([0, 2, -1, 5], i32), np.array(3, i32), real(), real()),
        Args(np.array([[0, 2], [1, 1]], i64), 3, real(), real(), axis=1),
        Args(np.array([[0, 2], [1, 1]], np.uint8), 4, real(), real(), axis=0),
        Args(np.array(1, i32), 2, real(), real()),
        Args(np.array([1], i32), 0, real(), real()),
        Args(np.array([2**62, 1], i64), 2, real(), real()),
    ],
    dtypes=ALL,
    order=2,
    bad=[
        Bad(Args(np.array([0], i32), np.array(-1, i32), real(), real()), match="-1"),
        Bad(Args(np.array([0], i32), np.array([2], i32), real(), real()), match="depth"),
        Bad(Args(np.array([0], i32), 2, real(2), real()), match="on_value"),
        Bad(Args(np.array([0], i32), 2, real(), real(), axis=2), match="2"),
        Bad(Args(np.zeros([2**10, 2**20], np.uint8), np.array(2**31 - 1, i32), real(), real())),
    ],
)


def _patches(x: np.ndarray, k: Any, s: Any, r: Any, padding: str) -> np.ndarray:
    (kh, kw), (sh, sw), (rh, rw) = k[1:3], s[1:3], r[1:3]
    eh, ew = (kh - 1) * rh + 1, (kw - 1) * rw + 1
    n, h, w, c = x.shape
    if padding == "SAME":
        oh, ow = -(-h // sh), -(-w // sw)
        ph, pw = max(0, (oh - 1) * sh + eh - h), max(0, (ow - 1) * sw + ew - w)
        x = np.pad(x, [(0, 0), (ph // 2, ph - ph // 2), (pw // 2, pw - pw // 2), (0, 0)])
    else:
        oh, ow = max(0, (h - eh) // sh + 1), max(0, (w - ew) // sw + 1)
    out = np.zeros([n, oh, ow, kh * kw * c], x.dtype)
    for i in range(oh):
        for j in range(ow):
            out[:, i, j] = x[:, i * sh : i * sh + eh : rh, j * sw : j * sw + ew : rw].reshape(n, -1)
    return out


_ONE = [1, 1, 1, 1]
case(
    "ExtractImagePatches",
    tf.extract_image_patches,
    _patches,
    samples=[
        Args(real(2, 5, 6, 2), [1, 2, 3, 1], _ONE, _ONE, "VALID"),
        Args(real(2, 5, 6, 2), [1, 3, 3, 1], [1, 2, 2, 1], _ONE, "SAME"),
        Args(real(1, 7, 6, 1), [1, 2, 2, 1], [1, 1, 2, 1], [1, 3, 2, 1], "SAME"),
        Args(real(1, 7, 6, 1), [1, 2, 2, 1], [1, 1, 2, 1], [1, 3, 2, 1], "VALID"),
        Args(real(1, 2, 2, 1), [1, 3, 3, 1], _ONE, _ONE, "VALID"),
    ],
    dtypes="bool uint8 float16 float32 float64 complex128",
    order=2,
    bad=[
        Bad(Args(real(2, 5, 6), [1, 2, 2, 1], _ONE, _ONE, "VALID"), match="4"),
        Bad(Args(real(2, 5, 6, 1), [1, 0, 2, 1], _ONE, _ONE, "VALID"), match="ksizes"),
        Bad(Args(real(2, 5, 6, 1), [2, 2, 2, 1], _ONE, _ONE, "VALID"), match="ksizes"),
    ],
)
case("DeepCopy", lambda x: apply("DeepCopy", x), lambda x: x, samples=[Args(real(2, 3)), Args(real(0))], dtypes=ALL)
case(
    "ParallelConcat",
    lambda a, b: apply("ParallelConcat", [a, b], shape=[2, None]),
    lambda a, b: np.concatenate([a, b]),
    samples=[Args(real(1, 3), real(1, 3))],
    dtypes=ALL,
    order=2,
    bad=[Bad(Args(real(2, 3), real(1, 3)), match="[2,3]"), Bad(Args(real(1, 3), real(1, 4)), match="[1,4]")],
)
