"""Gradients of functional control flow whose arguments and results are lists of tensors, and of that with datasets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg.graph.apply import apply
from thalweg.python.framework import function

raw = tf.raw_ops
SCALAR = np.zeros([0], np.int32)  # The shape of a scalar.


def _push(tensors: Any, x: Any) -> Any:
    return raw.TensorListPushBack(input_handle=tensors, tensor=x)


def _list(x: Any) -> Any:
    return _push(raw.EmptyTensorList(element_shape=SCALAR, max_num_elements=-1, element_dtype=x.dtype), x)


def _product(tensors: Any) -> Any:
    stacked = raw.TensorListStack(input_handle=tensors, element_shape=SCALAR, element_dtype=tf.float64)
    return tf.reduce_prod(stacked + 1.0)


def _defined(types: list[Any], body: Any) -> Any:
    made = function.Defun(*types)(body)
    made.add_to_graph(tf.get_default_graph())
    return made


def _loop(x: Any) -> Any:
    body = _defined([tf.int32, tf.variant, tf.float64], lambda i, t, x: (i + 1, _push(t, x * x), x * 1.5))
    go_on = _defined([tf.int32, tf.variant, tf.float64], lambda i, t, x: i < 4)
    return _product(apply("While", [0, _list(x), x], cond=go_on, body=body)[1])


def _branch(x: Any) -> Any:
    then = _defined([tf.variant, tf.float64], lambda t, x: _push(t, x * x))
    other = _defined([tf.variant, tf.float64], lambda t, x: _list(x * 3.0))
    return _product(apply("If", x > 0.0, [_list(x), x], then_branch=then, else_branch=other, Tout=[tf.variant])[0])


def _call(x: Any) -> Any:
    @tf.function
    def twice(tensors: Any, x: Any) -> Any:
        return _push(_push(tensors, x * x), tf.sin(x))

    return _product(twice(_list(x), x))


@pytest.mark.parametrize("start", [0.7, -0.4])
@pytest.mark.parametrize("made", [_loop, _branch, _call])
def test_gradients_pass_through_lists(made: Any, start: float) -> None:
    x = tf.placeholder(tf.float64, [])
    y = made(x)
    grad, step = tf.gradients(y, x)[0], 1e-6
    with tf.Session() as sess:
        found = sess.run(grad, {x: start})
        difference = (sess.run(y, {x: start + step}) - sess.run(y, {x: start - step})) / (2 * step)
    assert found == pytest.approx(difference, rel=1e-6)


@pytest.mark.parametrize("start", [2.0, -2.0])
def test_datasets_among_the_arguments_have_no_gradient(start: float) -> None:
    dataset = tf.data.Dataset.range(3)._variant_tensor
    then = _defined([tf.variant, tf.float64], lambda unused, x: x * x)
    other = _defined([tf.variant, tf.float64], lambda unused, x: x * 3.0)
    x = tf.placeholder(tf.float64, [])
    chosen = apply("If", x > 0.0, [dataset, x], then_branch=then, else_branch=other, Tout=[tf.float64])[0]
    body = _defined([tf.variant, tf.float64], lambda dataset, x: (dataset, x * 2.0))
    go_on = _defined([tf.variant, tf.float64], lambda dataset, x: tf.abs(x) < 30.0)
    looped = apply("While", [dataset, x], cond=go_on, body=body)[1]
    with tf.Session() as sess:
        assert sess.run(tf.gradients(chosen, x)[0], {x: start}) == (4.0 if start > 0 else 3.0)
        assert sess.run(tf.gradients(looped, x)[0], {x: start}) == 16.0
