"""Convolution functions that are compositions: each equals the ops it stands for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.ops.convolution_reference import Convolution


def _random(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape)


def _run(tensor: Any) -> Any:
    with tf.Session() as session:
        return session.run(tensor)


@pytest.mark.parametrize(("spatial", "layout"), [(1, "NCW"), (1, "NWC"), (2, "NHWC"), (2, "NCHW"), (3, None)])
def test_convolution_takes_any_number_of_dimensions(spatial: int, layout: str | None) -> None:
    first = layout is not None and layout[1] == "C"
    sizes = (6, 5, 4)[:spatial]
    x = _random(2, 3, *sizes) if first else _random(2, *sizes, 3)
    w = _random(*((2, 3, 2)[:spatial]), 3, 4)
    for strides, rate in ((2, 1), (1, 2)):
        y = tf.nn.convolution(x, w, "SAME", [strides] * spatial, [rate] * spatial, data_format=layout)
        expected = Convolution(strides, "SAME", rate, first).forward(x, w)
        assert y.shape.as_list() == list(expected.shape)
        np.testing.assert_allclose(_run(y), expected, 1e-6, 1e-9)
        sizes_of_x = tf.placeholder_with_default(list(x.shape), [len(x.shape)])
        for output_shape in (list(x.shape), sizes_of_x):
            z = tf.nn.conv_transpose(expected, w, output_shape, [strides] * spatial, "SAME", layout, [rate] * spatial)
            np.testing.assert_allclose(
                _run(z), Convolution(strides, "SAME", rate, first).input_gradient(x.shape, w, expected), 1e-6, 1e-9
            )


def test_convolution_refuses_strides_with_dilations_and_unknown_ranks() -> None:
    x, w = tf.zeros([1, 5, 5, 2]), tf.zeros([3, 3, 2, 2])
    with pytest.raises(ValueError, match="strides > 1"):
        tf.nn.convolution(x, w, "SAME", strides=[2, 1], dilation_rate=[2, 1])
    with pytest.raises(ValueError, match="rank"):
        tf.nn.convolution(tf.placeholder(tf.float32), tf.placeholder(tf.float32), "SAME")
    with pytest.raises(ValueError, match="2 elements"):
        tf.nn.convolution(x, w, "SAME", strides=[2, 1, 1])
    with pytest.raises(ValueError, match="positive"):
        tf.nn.convolution(x, w, "SAME", dilation_rate=[0, 1])


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_atrous_convolution_and_its_transpose(padding: str) -> None:
    x, w = _random(2, 7, 8, 3), _random(3, 2, 3, 4)
    expected = Convolution(1, padding, 2).forward(x, w)
    np.testing.assert_allclose(_run(tf.nn.atrous_conv2d(x, w, 2, padding)), expected, 1e-6, 1e-9)
    back = tf.nn.atrous_conv2d_transpose(expected, w, x.shape, 2, padding)
    np.testing.assert_allclose(_run(back), Convolution(1, padding, 2).input_gradient(x.shape, w, expected), 1e-6, 1e-9)
    with pytest.raises(ValueError, match="rate"):
        tf.nn.atrous_conv2d_transpose(expected, w, x.shape, 0, padding)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("known", [True, False])
def test_space_to_batch_gives_any_op_a_dilation(padding: str, known: bool) -> None:
    x, w = _random(2, 7, 8, 3), _random(3, 2, 3, 4)
    image = tf.placeholder_with_default(x, x.shape if known else [None, None, None, 3])
    calls = []

    def op(images: Any, dims: int, inner: str) -> Any:
        calls.append((dims, inner))
        return tf.nn.conv2d(images, w, 1, inner)

    y = tf.nn.with_space_to_batch(image, [2, 3], padding, op, filter_shape=[3, 2])
    np.testing.assert_allclose(_run(y), Convolution(1, padding, [2, 3]).forward(x, w), 1e-6, 1e-9)
    assert calls == [(2, "VALID")]


def test_space_to_batch_along_some_dimensions_only() -> None:
    x, w = _random(2, 3, 7, 8), _random(3, 2, 3, 4)

    def op(images: Any, dims: int, inner: str) -> Any:
        return tf.nn.conv2d(images, w, 1, inner, data_format="NCHW")

    y = tf.nn.with_space_to_batch(tf.constant(x), [1, 2], "VALID", op, spatial_dims=[2, 3])
    np.testing.assert_allclose(_run(y), Convolution(1, "VALID", [1, 2], True).forward(x, w), 1e-6, 1e-9)
    assert tf.nn.with_space_to_batch(tf.constant(x), [1, 1], "SAME", lambda *args: args[1:], []) == (2, "SAME")
    with pytest.raises(ValueError, match="spatial_dims"):
        tf.nn.with_space_to_batch(tf.constant(x), [1, 2], "VALID", op, spatial_dims=[2])
    with pytest.raises(ValueError, match="filter_shape"):
        tf.nn.with_space_to_batch(tf.constant(x), [1, 2], "SAME", op)


def test_depthwise_and_separable_convolution() -> None:
    x, depthwise, pointwise = _random(2, 7, 8, 3), _random(3, 3, 3, 2), _random(1, 1, 6, 5)
    for strides, rate in ((2, None), (1, [2, 3])):
        steps = [1, strides, strides, 1]
        expected = Convolution(strides, "SAME", rate or 1, depthwise=True).forward(x, depthwise)
        np.testing.assert_allclose(_run(tf.nn.depthwise_conv2d(x, depthwise, steps, "SAME", rate)), expected, 1e-6)
        both = tf.nn.separable_conv2d(x, depthwise, pointwise, steps, "SAME", rate, name="both")
        np.testing.assert_allclose(_run(both), expected @ pointwise[0, 0], 1e-6, 1e-9)
    with pytest.raises(ValueError, match="strides > 1"):
        tf.nn.depthwise_conv2d(x, depthwise, [1, 2, 2, 1], "SAME", rate=[2, 2])
    with pytest.raises(ValueError, match="1 x 1"):
        tf.nn.separable_conv2d(x, depthwise, _random(2, 1, 6, 5), [1, 1, 1, 1], "SAME")


def test_arguments_have_two_names() -> None:
    x, w = _random(1, 5, 5, 2), _random(3, 3, 2, 2)
    y = tf.nn.conv2d(x, filters=w, strides=1, padding="SAME")
    np.testing.assert_array_equal(_run(y), _run(tf.nn.conv2d(x, filter=w, strides=[1, 1], padding="SAME")))
    t = tf.nn.conv2d_transpose(input=x, filters=w, output_shape=[1, 5, 5, 2], strides=1)
    np.testing.assert_array_equal(_run(t), _run(tf.nn.conv2d_transpose(x, w, [1, 5, 5, 2], [1, 1, 1, 1])))
    with pytest.raises(ValueError, match="both"):
        tf.nn.conv2d(x, w, 1, "SAME", filters=w)
    with pytest.raises(TypeError, match="filter"):
        tf.nn.conv2d(x, strides=1, padding="SAME")
    with pytest.raises(TypeError, match="strides"):
        tf.nn.conv2d(x, w, padding="SAME")
    with pytest.raises(TypeError, match="padding"):
        tf.nn.conv2d(x, w, 1)
    with pytest.raises(ValueError, match="length"):
        tf.nn.conv2d(x, w, [1, 1, 1], "SAME")


def test_node_names_are_those_of_tensorflow() -> None:
    x, w = tf.placeholder(tf.float32, [1, 5, 5, 2]), tf.placeholder(tf.float32, [3, 3, 2, 2])
    assert tf.nn.conv2d(x, w, 1, "SAME").op.name == "Conv2D"
    assert tf.nn.conv2d_transpose(x, w, [1, 5, 5, 2], 1).op.name == "conv2d_transpose"
    assert tf.nn.convolution(x, w, "SAME").op.name == "convolution"
    assert tf.nn.conv1d(x[0], w[0], 1, "SAME").op.name == "conv1d/Squeeze"
    assert tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "SAME").op.name == "depthwise"
    names = [op.name for op in tf.get_default_graph().get_operations() if op.type == "Conv2D"]
    assert names == ["Conv2D", "convolution", "conv1d"]


def test_static_shapes_with_unknown_sizes() -> None:
    x = tf.placeholder(tf.float32, [None, None, 7, 3])
    assert tf.nn.conv2d(x, tf.zeros([3, 3, 3, 4]), 2, "SAME").shape.as_list() == [None, None, 4, 4]
    w = tf.placeholder(tf.float32, [None, 3, 3, None])
    assert tf.nn.conv2d(x, w, 2, "VALID").shape.as_list() == [None, None, 3, None]
    y = tf.nn.conv2d_transpose(x, tf.zeros([3, 3, 5, 3]), tf.stack([tf.shape(x)[0], 14, 14, 5]), 2)
    assert y.shape.as_list() == [None, 14, 14, 5]
    assert tf.nn.conv2d(tf.placeholder(tf.float32), tf.placeholder(tf.float32), 1, "SAME").shape.ndims == 4


def test_dilation_has_no_gradients_of_second_order() -> None:
    x = tf.zeros([1, 5, 5, 2])
    ones = [1, 1, 1, 1]
    first = tf.gradients(tf.nn.dilation2d(x, tf.zeros([3, 3, 2]), ones, ones, "SAME"), x)[0]
    with pytest.raises(LookupError, match="second order"):
        tf.gradients(first * first, x)


def test_nothing_larger_gives_the_lowest_number() -> None:
    ones = [1, 1, 1, 1]
    x = np.full([1, 2, 2, 1], np.nan, np.float32)
    y = tf.nn.dilation2d(x, np.zeros([2, 2, 1], np.float32), ones, ones, "VALID")
    assert _run(y).item() == np.finfo(np.float32).min


@pytest.mark.parametrize("far", [2**20, 2**30, 2**31 - 1])
def test_steps_far_beyond_the_image(far: int) -> None:
    x, w = _random(2, 9, 8, 16).astype(np.float32), _random(3, 3, 16, 16).astype(np.float32)
    image, kernel = tf.constant(x), tf.constant(w)
    # Only the middle of the filter is ever on the image.
    y = tf.nn.conv2d(image, kernel, 1, "SAME", dilations=far)
    dx, dw = tf.gradients(y, [image, kernel])
    values = _run([y, dx, dw])
    np.testing.assert_allclose(values[0], x @ w[1, 1], 1e-4, 1e-4)
    np.testing.assert_allclose(values[1], np.broadcast_to(w[1, 1].sum(1), x.shape), 1e-4, 1e-4)
    assert np.count_nonzero(values[2].any((2, 3))) == 1
    # Only one place of the image is visited.
    first = tf.nn.conv2d(image, kernel, far, "SAME")
    dx, dw = tf.gradients(first, [image, kernel])
    values = _run([first, dx, dw])
    np.testing.assert_allclose(values[0][:, 0, 0], np.tensordot(x[:, :3, :3], w, 3), 1e-4, 1e-4)
    assert np.count_nonzero(values[1].any((0, 3))) == 9
    np.testing.assert_allclose(values[2][..., 0], x[:, :3, :3].sum(0), 1e-4, 1e-4)
