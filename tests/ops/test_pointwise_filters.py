"""Gradients of filters of one pixel, with strides and few channels: oneDNN's kernel writes past its memory there."""

from __future__ import annotations

import numpy as np
import pytest

import thalweg as tf


@pytest.mark.parametrize("channels", [1, 3, 4, 7, 8, 12, 15, 16, 17, 20])
@pytest.mark.parametrize(("batch", "size", "stride", "outputs"), [(7, 14, 2, 16), (4, 29, 3, 8), (9, 16, 2, 5)])
def test_strided_filter_gradients(channels: int, batch: int, size: int, stride: int, outputs: int) -> None:
    rng = np.random.default_rng(channels)
    after = -(-size // stride)
    x = rng.standard_normal([batch, size, size, channels]).astype(np.float32)
    grad = rng.standard_normal([batch, after, after, outputs]).astype(np.float32)
    expected = np.einsum("byxi,byxo->io", x[:, ::stride, ::stride].astype(np.float64), grad)
    for threads in (1, 2):
        with tf.Graph().as_default():
            fed = tf.placeholder(tf.float32, x.shape)
            sizes, strides = [1, 1, channels, outputs], [1, stride, stride, 1]
            found = tf.nn.conv2d_backprop_filter(fed, sizes, grad, strides, "SAME")
            config = tf.ConfigProto(intra_op_parallelism_threads=threads)
            with tf.Session(config=config) as sess:
                for _ in range(5):  # Writes past the end of a buffer show later.
                    result = sess.run(found, {fed: x})
        np.testing.assert_allclose(result[0, 0], expected, rtol=1e-4, atol=1e-3)


def test_a_strided_filter_gradient_in_three_dimensions() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal([3, 9, 10, 11, 5]).astype(np.float32)
    grad = rng.standard_normal([3, 5, 4, 11, 12]).astype(np.float32)
    found = tf.nn.conv3d_backprop_filter_v2(x, [1, 1, 1, 5, 12], grad, [1, 2, 3, 1, 1], "VALID")
    expected = np.einsum("bzyxi,bzyxo->io", x[:, ::2, ::3].astype(np.float64), grad)
    with tf.Session() as sess:
        np.testing.assert_allclose(sess.run(found)[0, 0, 0], expected, rtol=1e-4, atol=1e-3)


def test_groups_and_channels_first_with_strides() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal([7, 6, 14, 14]).astype(np.float32)
    grad = rng.standard_normal([7, 16, 7, 7]).astype(np.float32)
    found = tf.nn.conv2d_backprop_filter(x, [1, 1, 6, 16], grad, [1, 1, 2, 2], "VALID", data_format="NCHW")
    expected = np.einsum("biyx,boyx->io", x[:, :, ::2, ::2].astype(np.float64), grad)
    with tf.Session() as sess:
        np.testing.assert_allclose(sess.run(found)[0, 0], expected, rtol=1e-4, atol=1e-3)
