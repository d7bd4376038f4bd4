"""Convolution and pooling layers: names, layouts, unknown sizes, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf


def evaluate(value: Any, feed: Any = None) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(value, feed)


def test_names() -> None:
    x = tf.zeros([1, 6, 6, 2])
    y = tf.layers.conv2d(x, 3, 2)
    tf.layers.conv2d(x, 3, 2)
    tf.layers.separable_conv2d(x, 3, 2)
    tf.layers.conv2d_transpose(x, 3, 2, name="up")
    pooled = tf.layers.max_pooling2d(x, 2, 2)
    assert [v.name for v in tf.global_variables()] == [
        "conv2d/kernel:0", "conv2d/bias:0", "conv2d_1/kernel:0", "conv2d_1/bias:0",
        "separable_conv2d/depthwise_kernel:0", "separable_conv2d/pointwise_kernel:0", "separable_conv2d/bias:0",
        "up/kernel:0", "up/bias:0",
    ]  # fmt: skip
    assert y.op.name == "conv2d/BiasAdd"
    assert y.op.inputs[0].op.name == "conv2d/Conv2D"
    assert pooled.op.name == "max_pooling2d/MaxPool"


def test_sharing() -> None:
    x = tf.ones([1, 6, 6, 2])
    a = tf.layers.conv2d(x, 3, 2, name="c")
    b = tf.layers.conv2d(x, 3, 2, name="c", reuse=True)
    assert len(tf.global_variables()) == 2
    one, two = evaluate([a, b])
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    ("function", "rank", "arguments"),
    [("conv1d", 1, (3, 2)), ("conv2d", 2, (3, 2)), ("conv3d", 3, (3, 2)), ("conv2d_transpose", 2, (3, 2, 2)),
     ("conv3d_transpose", 3, (3, 2, 2)), ("separable_conv1d", 1, (3, 2)), ("separable_conv2d", 2, (3, 2)),
     ("max_pooling1d", 1, (2, 2)), ("max_pooling2d", 2, (2, 2)), ("max_pooling3d", 3, (2, 2)),
     ("average_pooling1d", 1, (2, 2)), ("average_pooling2d", 2, (2, 2)), ("average_pooling3d", 3, (2, 2))],
)  # fmt: skip
def test_channels_first_and_unknown_sizes(function: str, rank: int, arguments: Any) -> None:
    layer = getattr(tf.layers, function)
    options = {} if "pooling" in function else {"name": "layer", "reuse": tf.AUTO_REUSE}
    value = np.random.RandomState(0).rand(2, *[4, 5, 6][:rank], 3).astype(np.float32)
    last = layer(tf.constant(value), *arguments, **options)
    first = layer(tf.constant(np.moveaxis(value, -1, 1)), *arguments, data_format="channels_first", **options)
    unknown = tf.placeholder(tf.float32, [None] * (rank + 1) + [3])
    free = layer(unknown, *arguments, **options)
    assert free.shape.as_list() == [None] * (rank + 1) + [last.shape.as_list()[-1]]
    a, b, c = evaluate([last, first, free], {unknown: value})
    assert a.shape == tuple(last.shape.as_list())
    assert b.shape == tuple(first.shape.as_list())
    np.testing.assert_allclose(np.moveaxis(b, 1, -1), a, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(c, a, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("padding", ["valid", "same"])
def test_output_shapes_agree_with_the_ops(padding: str) -> None:
    for layer in (
        tf.layers.Conv2D(3, (2, 3), (1, 2), padding), tf.layers.Conv2D(3, 2, padding=padding, dilation_rate=2),
        tf.layers.Conv2DTranspose(3, 3, 2, padding), tf.layers.MaxPooling2D(3, 2, padding),
    ):  # fmt: skip
        assert layer(tf.zeros([2, 7, 8, 4])).shape == layer.compute_output_shape([2, 7, 8, 4])


def test_regularizers_and_constraints() -> None:
    layer = tf.layers.Conv2D(3, 2, kernel_regularizer=tf.nn.l2_loss, kernel_constraint=tf.abs)
    layer(tf.zeros([1, 4, 4, 2]))
    assert layer.kernel.constraint is tf.abs
    assert layer.losses[0].op.name == "conv2d/kernel/Regularizer/L2Loss"


@pytest.mark.parametrize(
    ("arguments", "match"),
    [((3, (2, 2, 2)), "kernel_size"), ((3, 0), "kernel_size"), ((3, 2, (1, -1)), "strides"), ((0, 2), "filters"),
     ((3, 2, 1, "full"), "padding"), ((3, 2, 1, "same", "first"), "data_format"), ((3, "a"), "int")],
)  # fmt: skip
def test_bad_arguments(arguments: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        tf.layers.conv2d(tf.zeros([1, 4, 4, 2]), *arguments)


def test_bad_inputs() -> None:
    with pytest.raises(ValueError, match="ndim=4"):
        tf.layers.conv2d(tf.zeros([4, 4, 2]), 3, 2)
    with pytest.raises(ValueError, match="channel"):
        tf.layers.conv2d(tf.placeholder(tf.float32, [1, 4, 4, None]), 3, 2)
    with pytest.raises(ValueError, match="ndim=3"):
        tf.layers.max_pooling1d(tf.zeros([4, 4]), 2, 2)
    with pytest.raises(TypeError, match="unexpected"):
        tf.layers.conv2d(tf.zeros([1, 4, 4, 2]), 3, 2, nonsense=1)
    with pytest.raises(TypeError, match="missing"):
        tf.layers.conv2d(tf.zeros([1, 4, 4, 2]), 3)
