"""tf.contrib.layers: variable names and collections of TensorFlow, arg_scope, values against NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import thalweg as tf

layers: Any = tf.contrib.layers
framework: Any = tf.contrib.framework


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def names(collection: str = "variables") -> list[str]:
    return [v.op.name for v in tf.get_collection(collection)]


def test_variables_have_tensorflows_names_and_collections() -> None:
    x = tf.zeros([2, 8, 8, 3])
    with framework.arg_scope(
        [layers.conv2d, layers.fully_connected],
        weights_regularizer=layers.l2_regularizer(0.1),
        normalizer_fn=layers.batch_norm,
        normalizer_params={"scale": True},
    ):
        net = layers.conv2d(x, 4, [3, 3], scope="conv1")
        net = layers.conv2d(net, 4, 3)
        net = layers.fully_connected(layers.flatten(net), 5)
    layers.conv2d_transpose(x, 2, 3, stride=2)
    layers.separable_conv2d(x, 6, 3, 2)
    layers.stack(net, layers.fully_connected, [3, 2])
    layers.repeat(net, 2, layers.fully_connected, 5, scope="fc")
    layers.layer_norm(net)
    layers.embed_sequence(tf.constant([[1]]), 4, 3)
    assert names() == [
        "conv1/weights", "conv1/BatchNorm/gamma", "conv1/BatchNorm/beta", "conv1/BatchNorm/moving_mean",
        "conv1/BatchNorm/moving_variance", "Conv/weights", "Conv/BatchNorm/gamma", "Conv/BatchNorm/beta",
        "Conv/BatchNorm/moving_mean", "Conv/BatchNorm/moving_variance", "fully_connected/weights",
        "fully_connected/BatchNorm/beta", "fully_connected/BatchNorm/gamma", "fully_connected/BatchNorm/moving_mean",
        "fully_connected/BatchNorm/moving_variance", "Conv2d_transpose/weights", "Conv2d_transpose/biases",
        "SeparableConv2d/depthwise_weights", "SeparableConv2d/pointwise_weights", "SeparableConv2d/biases",
        "Stack/fully_connected_1/weights", "Stack/fully_connected_1/biases", "Stack/fully_connected_2/weights",
        "Stack/fully_connected_2/biases", "fc/fc_1/weights", "fc/fc_1/biases", "fc/fc_2/weights", "fc/fc_2/biases",
        "LayerNorm/beta", "LayerNorm/gamma", "EmbedSequence/embeddings",
    ]  # fmt: skip
    assert names(tf.GraphKeys.MODEL_VARIABLES) == names()
    averages = [n for n in names() if "moving" in n]
    assert [n for n in names() if n not in averages] == names(tf.GraphKeys.TRAINABLE_VARIABLES)
    assert [t.op.name for t in tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)] == [
        f"{scope}/kernel/Regularizer/l2_regularizer" for scope in ("conv1", "Conv", "fully_connected")
    ]
    assert len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == 6


def test_arg_scopes_nest_are_stored_and_can_be_overridden() -> None:
    @framework.add_arg_scope
    def f(a: int, b: int = 2, c: int = 3) -> tuple[int, int, int]:
        return a, b, c

    with framework.arg_scope([f], b=10) as outer:
        with framework.arg_scope([f], c=20):
            assert f(1) == (1, 10, 20) and f(1, c=5) == (1, 10, 5)
        assert f(1) == (1, 10, 3)
    assert f(1) == (1, 2, 3)
    with framework.arg_scope(outer):
        assert f(1) == (1, 10, 3)
        with pytest.raises(ValueError, match="kwargs must be empty"), framework.arg_scope(outer, b=1):
            pass
    with pytest.raises(ValueError, match="not decorated"), framework.arg_scope([len], x=1):
        pass
    with pytest.raises(TypeError, match="list/tuple"), framework.arg_scope(f, b=1):
        pass
    assert framework.has_arg_scope(f) and not framework.has_arg_scope(len)


def test_arg_scope_reaches_the_variables_of_layers() -> None:
    with framework.arg_scope([framework.model_variable, framework.variable], collections=["mine"], device="/cpu:0"):
        layers.conv2d(tf.zeros([1, 4, 4, 1]), 2, 3)
    assert names(tf.GraphKeys.MODEL_VARIABLES) == ["Conv/weights", "Conv/biases"]
    assert all(v.device == "/device:CPU:0" for v in tf.global_variables())


def test_variables_collections_by_kind_and_outputs() -> None:
    net = layers.fully_connected(
        tf.zeros([1, 2]), 3, variables_collections={"weights": ["W"]}, outputs_collections="out", scope="a"
    )
    assert names("W") == ["a/weights"] and tf.get_collection("out") == [net]
    assert list(layers.utils.convert_collection_to_dict("out")) == ["a"]


@pytest.mark.parametrize(
    ("shape", "fused"), [([6, 5], None), ([4, 3, 3, 5], None), ([4, 3, 3, 5], False), ([4, 3, 5], None)]
)
def test_batch_norm_normalizes_and_keeps_averages(shape: list[int], fused: bool | None) -> None:
    data = np.random.RandomState(0).randn(*shape).astype(np.float32) * 3 + 1
    x, training = tf.placeholder(tf.float32, shape), tf.placeholder(tf.bool, [])
    y = layers.batch_norm(x, decay=0.5, is_training=training, updates_collections=None, fused=fused, scale=True)
    axes = tuple(range(len(shape) - 1))
    mean, variance = data.mean(axes), data.var(axes)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        trained = sess.run(y, {x: data, training: True})
        np.testing.assert_allclose(trained, (data - mean) / np.sqrt(variance + 1e-3), rtol=1e-3, atol=1e-4)
        found = {v.op.name.rpartition("/")[2]: sess.run(v) for v in tf.global_variables()}
        np.testing.assert_allclose(found["moving_mean"], 0.5 * mean, rtol=1e-4, atol=1e-5)
        count = data.size // shape[-1]
        # The fused form keeps the unbiased variance, as TensorFlow's kernel does.
        kept = variance * count / (count - 1) if len(shape) != 3 and fused is None else variance
        np.testing.assert_allclose(found["moving_variance"], 0.5 + 0.5 * kept, rtol=1e-4)
        plain = sess.run(y, {x: data, training: False})
        expected = (data - found["moving_mean"]) / np.sqrt(found["moving_variance"] + 1e-3)
        np.testing.assert_allclose(plain, expected, rtol=1e-3, atol=1e-4)
        again = {v.op.name.rpartition("/")[2]: sess.run(v) for v in tf.global_variables()}
        np.testing.assert_array_equal(again["moving_mean"], found["moving_mean"])


@pytest.mark.parametrize(
    ("rank", "options", "first"),
    [
        (4, {}, "gamma"),
        (2, {}, "beta"),
        (2, {"fused": False}, "gamma"),
        (4, {"updates_collections": None}, "beta"),
        (4, {"zero_debias_moving_mean": True}, "beta"),
        (4, {"fused": True, "batch_weights": np.ones(4, np.float32)}, "beta"),
        (5, {"fused": True}, "gamma"),
    ],
)
def test_batch_norm_makes_its_variables_in_tensorflows_order(rank: int, options: dict[str, Any], first: str) -> None:
    layers.batch_norm(tf.zeros([4] * rank), scale=True, **options)
    assert next(v.op.name for v in tf.global_variables()) == f"BatchNorm/{first}"


def test_normalizations_of_examples() -> None:
    data = np.random.RandomState(1).randn(2, 3, 3, 8).astype(np.float32)
    outputs = [
        layers.layer_norm(data), layers.instance_norm(data), layers.group_norm(data, groups=2),
        layers.unit_norm(data, 3),
    ]  # fmt: skip
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        layer, instance, group, unit = sess.run(outputs)

    def normalized(values: Any, axes: tuple[int, ...]) -> Any:
        return (values - values.mean(axes, keepdims=True)) / values.std(axes, keepdims=True)

    np.testing.assert_allclose(layer, normalized(data, (1, 2, 3)), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(instance, normalized(data, (1, 2)), rtol=1e-3, atol=1e-4)
    grouped = normalized(data.reshape(2, 3, 3, 2, 4), (1, 2, 4)).reshape(data.shape)
    np.testing.assert_allclose(group, grouped, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(np.square(unit).sum(-1), 1.0, rtol=1e-4)


def test_bad_arguments_are_refused() -> None:
    x = tf.zeros([1, 4, 4, 1])
    with pytest.raises(ValueError, match="data_format"):
        layers.conv2d(x, 1, 1, data_format="CHWN")
    with pytest.raises(ValueError, match="expects input with rank 5"):
        layers.conv3d(x, 1, 1)
    with pytest.raises(ValueError, match="integer"):
        layers.fully_connected(tf.zeros([1, 2]), 2.5)
    with pytest.raises(ValueError, match="undefined rank"):
        layers.batch_norm(tf.placeholder(tf.float32))
    with pytest.raises(ValueError, match="6 channels is not commensurate with 4 groups"):
        layers.group_norm(tf.zeros([1, 2, 2, 6]), groups=4)
    with pytest.raises(ValueError, match="not a multiple"):
        layers.maxout(tf.zeros([1, 5]), 2)
    with pytest.raises(ValueError, match="vocab size"):
        layers.embed_sequence(tf.constant([[1]]))


def test_reuse_finds_the_variables() -> None:
    x = tf.zeros([1, 2])
    layers.fully_connected(x, 3, scope="a")
    layers.fully_connected(x, 3, scope="a", reuse=True)
    assert names() == ["a/weights", "a/biases"]
    with pytest.raises(ValueError, match="already exists"):
        layers.fully_connected(x, 3, scope="a")


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", tf.train.AdagradOptimizer, lambda r: tf.train.FtrlOptimizer(r)])
def test_optimize_loss_reduces_the_loss(optimizer: Any) -> None:
    w = tf.Variable([3.0])
    train = layers.optimize_loss(
        tf.reduce_sum(tf.square(w)), tf.train.get_or_create_global_step(), 0.1, optimizer, clip_gradients=5.0,
        gradient_multipliers={w: 0.5}, learning_rate_decay_fn=lambda r, s: tf.train.exponential_decay(r, s, 100, 0.9),
    )  # fmt: skip
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        losses = [sess.run(train) for _ in range(5)]
        assert losses[-1] < losses[0] and sess.run(tf.train.get_global_step()) == 5


def test_optimize_loss_refuses_bad_arguments() -> None:
    loss = tf.reduce_sum(tf.Variable([1.0]))
    with pytest.raises(ValueError, match="Optimizer name should be one of"):
        layers.optimize_loss(loss, None, 0.1, "Nope")
    with pytest.raises(ValueError, match="Summaries should be one of"):
        layers.optimize_loss(loss, None, 0.1, "SGD", summaries=["nope"])
    with pytest.raises(ValueError, match="Invalid learning_rate"):
        layers.optimize_loss(loss, None, -0.1, "SGD")


def test_columns_of_that_time_feed_a_layer() -> None:
    columns = [
        layers.real_valued_column("age"),
        layers.one_hot_column(layers.sparse_column_with_keys("sex", ["f", "m"])),
        layers.embedding_column(layers.sparse_column_with_hash_bucket("job", 10), 3),
    ]
    features = {
        "age": tf.constant([[1.0], [2.0]]),
        "sex": tf.constant([["f"], ["m"]]),
        "job": tf.constant([["a"], ["b"]]),
    }
    net = layers.input_from_feature_columns(features, columns)
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.tables_initializer()])
        rows = sess.run(net)
    assert rows.shape == (2, 6) and rows[:, 0].tolist() == [1.0, 2.0]


def test_variables_are_found_by_scope_suffix_and_name() -> None:
    layers.fully_connected(tf.zeros([1, 2]), 3, scope="a/b")
    layers.fully_connected(tf.zeros([1, 2]), 3, scope="a/c")
    weights = [v.op.name for v in framework.get_variables_by_suffix("weights")]
    assert weights == ["a/b/weights", "a/c/weights"]
    assert [v.op.name for v in framework.get_variables("a/c")] == ["a/c/weights", "a/c/biases"]
    assert [v.op.name for v in framework.get_variables_by_name("biases")] == ["a/b/biases", "a/c/biases"]
    assert framework.get_unique_variable("a/b/weights").op.name == "a/b/weights"
    assert [v.op.name for v in framework.get_variables_to_restore(include=["a"], exclude=["a/b"])] == [
        "a/c/weights", "a/c/biases",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="uniquely"):
        framework.get_unique_variable("a")
    with pytest.raises(ValueError, match="find variable"):
        framework.get_unique_variable("z")
    kept = framework.filter_variables(tf.global_variables(), include_patterns=["b/"], exclude_patterns=["biases"])
    assert [v.op.name for v in kept] == ["a/b/weights"]
