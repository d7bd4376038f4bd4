"""constant_value: the part of a tensor's value that is known while the graph is built."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import thalweg as tf
from thalweg.graph.apply import apply
from thalweg.graph.definitions.op_registry import is_defined
from thalweg.graph.static_value import constant_value, constant_value_as_shape

needs_array_ops = pytest.mark.skipif(
    not all(is_defined(op) for op in ("Pack", "Shape", "StridedSlice", "ConcatV2", "Fill", "Range", "Cast")),
    reason="needs the array ops",
)


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


def test_constants_are_known_and_placeholders_are_not() -> None:
    assert constant_value(tf.constant([1, 2])).tolist() == [1, 2]
    assert constant_value(tf.placeholder(tf.int32)) is None
    assert constant_value(tf.identity(tf.constant(3))) == 3
    assert constant_value(tf.constant(3) * 4 + 1) == 13
    assert constant_value(tf.constant(3.0) * 4.0) is None  # Floats stay with the kernels.


def test_a_long_chain_is_given_up_rather_than_followed() -> None:
    x = tf.constant(1)
    for _ in range(5000):
        x = tf.identity(x)
    assert constant_value(x) is None


def test_a_vector_of_sizes_is_a_shape() -> None:
    assert constant_value_as_shape(tf.constant([2, -1])).as_list() == [2, None]
    assert constant_value_as_shape(tf.placeholder(tf.int32, [2])).as_list() == [None, None]
    assert constant_value_as_shape(tf.placeholder(tf.int32)).ndims is None
    assert constant_value_as_shape(tf.constant(-1)).ndims is None
    for bad in (tf.constant([-2]), tf.constant(3), tf.constant([[1]])):
        with pytest.raises(ValueError):
            constant_value_as_shape(bad)


@needs_array_ops
def test_shape_arithmetic_is_followed() -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    known = tf.placeholder(tf.float32, [2, 3])
    assert constant_value(apply("Shape", known)).tolist() == [2, 3]
    assert constant_value(apply("Shape", x)) is None
    assert constant_value_as_shape(apply("Shape", x)).as_list() == [None, 3]
    last = apply("StridedSlice", apply("Shape", x), [1], [2], [1], shrink_axis_mask=1)
    first = apply("StridedSlice", apply("Shape", x), [0], [1], [1], shrink_axis_mask=1)
    assert constant_value(last) == 3
    assert constant_value(first) is None
    assert constant_value_as_shape(apply("Pack", [first, last, 7])).as_list() == [None, 3, 7]
    joined = apply("ConcatV2", [apply("Shape", x), [4]], 0)
    assert constant_value_as_shape(joined).as_list() == [None, 3, 4]
    assert constant_value(apply("Range", 0, 6, 2)).tolist() == [0, 2, 4]
    assert constant_value(apply("Fill", [2], 5)).tolist() == [5, 5]
    assert constant_value(apply("Cast", tf.constant([1.7]), DstT=tf.int32)).dtype == np.int32
    assert constant_value(apply("Fill", [1 << 15, 1 << 15], 5)) is None
