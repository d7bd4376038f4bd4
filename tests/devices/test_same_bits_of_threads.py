"""Convolutions, products and sums give the same bits for any number of threads of their kernels.

The sizes are ones for which oneDNN, left to itself, cuts or orders sums by the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg import _core as core

THREADS = (1, 2, 3, 4, 8)


@pytest.fixture(autouse=True)
def default_threads() -> Iterator[None]:
    """Restores the number of threads of the process."""
    yield
    core.set_intra_op_threads(0)


def array(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def check(fetches: dict[str, Any], feeds: dict[Any, np.ndarray]) -> None:
    """Runs the fetches with each number of threads and compares all bits with those of one thread."""
    with tf.Session() as sess:
        first: dict[str, np.ndarray] = {}
        for threads in THREADS:
            core.set_intra_op_threads(threads)
            results = {name: np.asarray(value, np.float32) for name, value in sess.run(fetches, feeds).items()}
            first = first or results
            for name, value in results.items():
                np.testing.assert_array_equal(value, first[name], f"{name} with {threads} threads")


def check_convolution(x: Any, filters: Any, y: Any) -> None:
    """Checks the output, and the gradients of the input and the filter, for random data."""
    grad = tf.placeholder(tf.float32, y.shape)
    to_input, to_filter = tf.gradients(tf.cast(y, tf.float32), [x, filters], grad)
    feeds = {value: array(*value.shape.as_list(), seed=i) for i, value in enumerate([x, filters, grad])}
    check({"output": y, "input gradient": to_input, "filter gradient": to_filter}, feeds)


CONVOLUTIONS = [
    # batch, size, in channels, out channels, filter, stride, padding
    (16, 7, 17, 128, 7, 1, "VALID"),
    (1, 7, 96, 4, 7, 2, "SAME"),
    (8, 8, 512, 32, 5, 4, "VALID"),
    (4, 28, 32, 192, 3, 2, "SAME"),
    (3, 14, 4, 32, 3, 2, "SAME"),
    (1, 28, 128, 128, 3, 2, "SAME"),
    (2, 28, 64, 8, 7, 2, "SAME"),
    (16, 27, 17, 8, 3, 4, "VALID"),
    (8, 27, 17, 1, 3, 2, "VALID"),
    (2, 27, 3, 24, 3, 1, "VALID"),
    (4, 28, 48, 8, 1, 1, "VALID"),
    (2, 16, 512, 160, 1, 1, "SAME"),
    (1, 7, 48, 136, 5, 1, "SAME"),
    (6, 14, 24, 64, 5, 1, "SAME"),
    (5, 32, 3, 16, 5, 2, "SAME"),
    (64, 28, 1, 32, 5, 1, "SAME"),
    (3, 16, 256, 72, 3, 2, "SAME"),
]  # fmt: skip


@pytest.mark.parametrize(("batch", "size", "inputs", "outputs", "filter", "stride", "padding"), CONVOLUTIONS)
def test_convolutions(batch: int, size: int, inputs: int, outputs: int, filter: int, stride: int, padding: str) -> None:
    x = tf.placeholder(tf.float32, [batch, size, size, inputs])
    filters = tf.placeholder(tf.float32, [filter, filter, inputs, outputs])
    check_convolution(x, filters, tf.nn.conv2d(x, filters, [1, stride, stride, 1], padding))


@pytest.mark.parametrize(("batch", "size", "inputs", "outputs", "stride"), [(4, 14, 24, 40, 2), (3, 9, 64, 96, 1)])
def test_convolutions_of_bfloat16(batch: int, size: int, inputs: int, outputs: int, stride: int) -> None:
    x = tf.placeholder(tf.float32, [batch, size, size, inputs])
    filters = tf.placeholder(tf.float32, [3, 3, inputs, outputs])
    y = tf.nn.conv2d(tf.cast(x, tf.bfloat16), tf.cast(filters, tf.bfloat16), [1, stride, stride, 1], "SAME")
    check_convolution(x, filters, y)


@pytest.mark.parametrize(
    ("batch", "size", "channels", "multiplier", "stride"),
    [(8, 28, 8, 1, 1), (4, 28, 3, 1, 2), (2, 14, 128, 1, 1), (2, 28, 64, 2, 2), (1, 7, 64, 1, 1)],
)
def test_depthwise_convolutions(batch: int, size: int, channels: int, multiplier: int, stride: int) -> None:
    x = tf.placeholder(tf.float32, [batch, size, size, channels])
    filters = tf.placeholder(tf.float32, [3, 3, channels, multiplier])
    check_convolution(x, filters, tf.nn.depthwise_conv2d(x, filters, [1, stride, stride, 1], "SAME"))


@pytest.mark.parametrize(
    ("batch", "size", "inputs", "outputs", "stride"), [(2, 12, 8, 32, 2), (1, 8, 16, 16, 1), (2, 6, 32, 136, 2)]
)
def test_convolutions_of_volumes(batch: int, size: int, inputs: int, outputs: int, stride: int) -> None:
    x = tf.placeholder(tf.float32, [batch, size, size, size, inputs])
    filters = tf.placeholder(tf.float32, [3, 3, 3, inputs, outputs])
    check_convolution(x, filters, tf.nn.conv3d(x, filters, [1, stride, stride, stride, 1], "SAME"))


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
@pytest.mark.parametrize(
    ("rows", "columns", "inner"), [(3, 8, 6272), (48, 8, 3136), (16, 1000, 4096), (200, 300, 2048), (64, 64, 16384)]
)
def test_products(dtype: tf.DType, rows: int, columns: int, inner: int) -> None:
    a, b = tf.placeholder(tf.float32, [rows, inner]), tf.placeholder(tf.float32, [inner, columns])
    left, right = tf.cast(a, dtype), tf.cast(b, dtype)
    fetches = {
        "plain": tf.matmul(left, right),
        "transposed": tf.matmul(tf.transpose(left) + 0, tf.transpose(right) + 0, transpose_a=True, transpose_b=True),
    }
    feeds = {a: array(rows, inner), b: array(inner, columns, seed=1)}
    check({name: tf.cast(value, tf.float32) for name, value in fetches.items()}, feeds)


def test_sums_and_normalization() -> None:
    x, scale = tf.placeholder(tf.float32, [9, 27, 27, 40]), tf.placeholder(tf.float32, [40])
    y, mean, variance = tf.nn.fused_batch_norm(x, scale, scale)
    to_x, to_scale = tf.gradients(tf.square(y), [x, scale])
    fetches = {"y": y, "mean": mean, "variance": variance, "to x": to_x, "to scale": to_scale}
    for i, axes in enumerate([None, [0], [3], [0, 1, 2], [1, 2]]):
        fetches[f"sum {i}"] = tf.reduce_sum(x, axes)
    fetches["pool"] = tf.gradients(tf.square(tf.nn.avg_pool(x, [1, 3, 3, 1], [1, 2, 2, 1], "SAME")), x)[0]
    check(fetches, {x: array(9, 27, 27, 40), scale: array(40, seed=1)})
