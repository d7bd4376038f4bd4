"""tf.layers: naming, sharing, losses, and Dense, Dropout, Flatten."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf


def names() -> list[str]:
    return [v.name for v in tf.global_variables()]


def evaluate(value: Any, feed: Any = None) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(value, feed)


def test_default_names_count_up_and_given_names_stay() -> None:
    x = tf.zeros([3, 4])
    tf.layers.dense(x, 5)
    tf.layers.dense(x, 5, name="given")
    tf.layers.dense(x, 5)
    with tf.variable_scope("outer"):
        tf.layers.dense(x, 5, use_bias=False)
    assert names() == [
        "dense/kernel:0", "dense/bias:0", "given/kernel:0", "given/bias:0", "dense_1/kernel:0", "dense_1/bias:0",
        "outer/dense/kernel:0",
    ]  # fmt: skip


def test_name_scopes_name_ops_but_not_variables() -> None:
    with tf.variable_scope("a"), tf.name_scope("n"):
        y = tf.layers.dense(tf.zeros([3, 4]), 5)
    assert names() == ["a/dense/kernel:0", "a/dense/bias:0"]
    assert y.op.name == "a/n/dense/BiasAdd"


def test_reuse_shares_variables() -> None:
    x = tf.ones([3, 4])
    first = tf.layers.dense(x, 5, name="d")
    second = tf.layers.dense(x, 5, name="d", reuse=True)
    with tf.variable_scope("", reuse=tf.AUTO_REUSE):
        third = tf.layers.dense(x, 5, name="d")
    assert len(names()) == 2
    a, b, c = evaluate([first, second, third])
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(a, c)
    with pytest.raises(ValueError, match="already exists"):
        tf.layers.dense(x, 5, name="d")
    with pytest.raises(ValueError, match="does not exist"):
        tf.layers.dense(x, 5, name="other", reuse=True)


def test_a_scope_opened_again_finds_unnamed_layers_in_order() -> None:
    x = tf.ones([3, 4])
    for reuse in (None, True):
        with tf.variable_scope("a", reuse=reuse):
            tf.layers.dense(x, 5)
            tf.layers.dense(x, 5)
    assert names() == ["a/dense/kernel:0", "a/dense/bias:0", "a/dense_1/kernel:0", "a/dense_1/bias:0"]


def test_a_layer_object_shares_with_itself() -> None:
    layer = tf.layers.Dense(2)
    with pytest.raises(ValueError, match="scope"):
        _ = layer.scope_name
    x = tf.ones([3, 4])
    one, two = layer(x), layer.apply(x)
    assert layer.scope_name == "dense"
    assert [v.name for v in layer.variables] == names() == ["dense/kernel:0", "dense/bias:0"]
    assert one.op.name == "dense/BiasAdd"
    assert two.op.name == "dense/BiasAdd_1"
    assert layer.count_params() == 10
    a, b = evaluate([one, two])
    np.testing.assert_array_equal(a, b)


def test_dense_of_higher_rank_multiplies_the_last_axis() -> None:
    x = np.random.RandomState(0).randn(2, 3, 4).astype(np.float32)
    layer = tf.layers.Dense(5, activation=tf.nn.relu, bias_initializer=tf.ones_initializer())
    fed = tf.placeholder(tf.float32, [None, None, 4])
    y = layer(fed)
    assert y.shape.as_list() == [None, None, 5]
    value, kernel = evaluate([y, layer.kernel], {fed: x})
    np.testing.assert_allclose(value, np.maximum(x @ kernel + 1, 0), rtol=1e-5, atol=1e-5)
    assert layer.compute_output_shape([7, 3, 4]).as_list() == [7, 3, 5]


def test_regularizers_join_the_collection_once() -> None:
    x = tf.ones([3, 4])
    for reuse in (None, True):
        tf.layers.dense(
            x, 5, name="d", reuse=reuse, kernel_regularizer=lambda w: tf.reduce_sum(w * w),
            bias_regularizer=tf.reduce_sum,
        )  # fmt: skip
    losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    assert [loss.op.name.rpartition("/")[0] for loss in losses] == ["d/kernel/Regularizer", "d/bias/Regularizer"]


def test_activity_regularizer_sees_the_output() -> None:
    layer = tf.layers.Dense(2, activity_regularizer=tf.reduce_sum, kernel_initializer=tf.ones_initializer())
    x = tf.ones([3, 4])
    layer(x)
    assert layer.get_losses_for(x) == layer.losses == tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    assert layer.get_losses_for(None) == []
    assert evaluate(layer.losses[0]) == 24


def test_constraints_and_trainable_reach_the_variables() -> None:
    layer = tf.layers.Dense(2, kernel_constraint=tf.abs, trainable=False)
    layer(tf.ones([1, 3]))
    assert layer.kernel.constraint is tf.abs
    assert tf.trainable_variables() == []
    assert layer.trainable_weights == []
    assert len(layer.non_trainable_weights) == 2


def test_the_type_follows_the_first_input() -> None:
    layer = tf.layers.Dense(2)
    assert layer(tf.ones([1, 3], tf.float64)).dtype == tf.float64
    assert layer.dtype == "float64"


def test_dropout_acts_only_in_training() -> None:
    x = tf.ones([1000])
    training = tf.placeholder(tf.bool, [])
    y = tf.layers.dropout(x, rate=0.25, training=training, seed=3)
    assert evaluate(y, {training: False}).sum() == 1000
    value = evaluate(y, {training: True})
    assert set(np.unique(value)) == {0.0, np.float32(1 / 0.75)}
    assert 180 < (value == 0).sum() < 320
    assert evaluate(tf.layers.dropout(x)).sum() == 1000


def test_dropout_noise_shape() -> None:
    x = tf.ones([20, 30])
    value = evaluate(tf.nn.dropout(x, rate=0.5, noise_shape=[None, 1], seed=3))
    assert (value == value[:, :1]).all()
    assert len(np.unique(value)) == 2


@pytest.mark.parametrize(
    ("arguments", "error"),
    [({"rate": 1.0}, ValueError), ({"rate": -0.1}, ValueError), ({}, ValueError),
     ({"rate": 0.5, "keep_prob": 0.5}, ValueError), ({"rate": [0.5]}, ValueError)],
)  # fmt: skip
def test_dropout_refuses(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        tf.nn.dropout(tf.ones([3]), **arguments)
    with pytest.raises(ValueError, match="floating"):
        tf.nn.dropout(tf.ones([3], tf.int32), rate=0.5)


@pytest.mark.parametrize(
    ("known", "actual", "flat"),
    [((2, 3, 4), (2, 3, 4), (2, 12)), ((None, 3, 4), (5, 3, 4), (None, 12)), ((2, None, 4), (2, 6, 4), (2, None)),
     ((None, None, 4), (5, 3, 4), (None, None)), ((3,), (3,), (3, 1)), ((None, 0, 2), (3, 0, 2), (None, 0))],
)  # fmt: skip
def test_flatten(known: Any, actual: Any, flat: Any) -> None:
    x = tf.placeholder(tf.float32, known)
    y = tf.layers.flatten(x)
    assert tuple(y.shape.as_list()) == flat
    value = np.arange(np.prod(actual), dtype=np.float32).reshape(actual)
    if 0 in actual:
        return
    np.testing.assert_array_equal(evaluate(y, {x: value}), value.reshape(actual[0], -1))


def test_flatten_moves_channels_last() -> None:
    value = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    y = tf.layers.flatten(tf.constant(value), data_format="channels_first")
    np.testing.assert_array_equal(evaluate(y), value.transpose(0, 2, 1).reshape(2, 12))


def test_a_layer_of_a_user() -> None:
    class Twice(tf.layers.Layer):
        def build(self, input_shape: Any) -> None:
            self.inner = tf.layers.Dense(2, name="inner")
            self.offset = self.add_variable("offset", [2], initializer=tf.zeros_initializer(), trainable=False)
            super().build(input_shape)

        def call(self, inputs: Any, factor: float = 1.0) -> Any:
            return self.inner(inputs) * factor + self.offset

    layer = Twice()
    layer(tf.ones([1, 3]), factor=2.0)
    assert sorted(names()) == ["twice/inner/bias:0", "twice/inner/kernel:0", "twice/offset:0"]
    assert [v.name for v in layer.trainable_weights] == ["twice/inner/kernel:0", "twice/inner/bias:0"]
    assert [v.name for v in layer.non_trainable_weights] == ["twice/offset:0"]


def test_bad_inputs() -> None:
    with pytest.raises(ValueError, match="min_ndim=2"):
        tf.layers.dense(tf.ones([3]), 2)
    with pytest.raises(ValueError, match="last dimension"):
        tf.layers.dense(tf.placeholder(tf.float32, [3, None]), 2)
    layer = tf.layers.Dense(2)
    layer(tf.ones([1, 3]))
    with pytest.raises(ValueError, match="axis -1"):
        layer(tf.ones([1, 4]))
    with pytest.raises(TypeError, match="understood"):
        tf.layers.Dense(2, nonsense=1)
    with pytest.raises(ValueError, match="units"):
        tf.layers.Dense(0)
    with pytest.raises(TypeError, match="int32"):
        tf.layers.dense(tf.placeholder(tf.int32, [None, 3]), 2)
    with tf.Graph().as_default(), pytest.raises(ValueError, match="graph"):
        layer(tf.ones([1, 3]))
