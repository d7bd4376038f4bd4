"""Batch normalization: names, updates, types, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf


def test_variables_and_updates() -> None:
    tf.layers.batch_normalization(tf.zeros([2, 3, 3, 4]), training=True)
    assert [v.name for v in tf.global_variables()] == [
        f"batch_normalization/{name}:0" for name in ("gamma", "beta", "moving_mean", "moving_variance")
    ]
    assert [v.op.name for v in tf.trainable_variables()] == ["batch_normalization/gamma", "batch_normalization/beta"]
    assert len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == 2
    types = [op.type for op in tf.get_default_graph().get_operations()]
    assert types.count("FusedBatchNormV3") == 1


def test_inference_updates_nothing() -> None:
    tf.layers.batch_normalization(tf.zeros([2, 4]))
    assert tf.get_collection(tf.GraphKeys.UPDATE_OPS) == []


@pytest.mark.parametrize("shape", [(64, 3), (8, 4, 2, 3)])
def test_moving_averages_approach_the_statistics(shape: Any) -> None:
    x = tf.placeholder(tf.float32, (None, *shape[1:]))
    training = tf.placeholder(tf.bool, [])
    layer = tf.layers.BatchNormalization(momentum=0.5)
    y = layer(x, training=training)
    value = (np.random.RandomState(0).randn(*shape) * [1, 2, 3] + [5, 0, -5]).astype(np.float32)
    axes = tuple(range(len(shape) - 1))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        out = session.run(y, {x: value, training: True})
        np.testing.assert_allclose(out.mean(axes), 0, atol=1e-4)
        np.testing.assert_allclose(out.std(axes), 1, atol=1e-2)
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        before = session.run(layer.moving_mean)
        session.run(updates, {x: value, training: False})
        np.testing.assert_array_equal(session.run(layer.moving_mean), before)
        for _ in range(20):
            session.run(updates, {x: value, training: True})
        np.testing.assert_allclose(session.run(layer.moving_mean), value.mean(axes), rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(session.run(layer.moving_variance), value.var(axes), rtol=0.05)
        out = session.run(y, {x: value, training: False})
        np.testing.assert_allclose(out.std(axes), 1, atol=0.03)


def test_a_frozen_layer_still_normalizes() -> None:
    layer = tf.layers.BatchNormalization(trainable=False)
    layer(tf.zeros([2, 4]), training=True)
    assert tf.trainable_variables() == []
    assert layer.updates == []


def test_sharing() -> None:
    x = tf.ones([2, 4])
    tf.layers.batch_normalization(x, training=True, name="bn")
    tf.layers.batch_normalization(x, training=False, name="bn", reuse=True)
    assert len(tf.global_variables()) == 4


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("shape", [(6, 4), (2, 3, 2, 4)])
def test_float64_and_float16(dtype: str, shape: Any) -> None:
    value = np.random.RandomState(0).randn(*shape).astype(dtype)
    y = tf.layers.batch_normalization(tf.constant(value), training=True)
    assert y.dtype == dtype
    assert tf.global_variables()[0].dtype == ("float64" if dtype == "float64" else "float32")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        out = session.run(y).astype(np.float64)
    np.testing.assert_allclose(out.mean(tuple(range(len(shape) - 1))), 0, atol=1e-2)


def test_channels_first() -> None:
    value = np.random.RandomState(0).randn(2, 3, 4, 5).astype(np.float32)
    first = tf.layers.batch_normalization(tf.constant(value), axis=1, training=True)
    last = tf.layers.batch_normalization(tf.constant(np.moveaxis(value, 1, -1)), training=True)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        a, b = session.run([first, last])
    np.testing.assert_allclose(np.moveaxis(a, 1, -1), b, rtol=1e-4, atol=1e-5)


def _normalized(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-3)


@pytest.mark.parametrize("shape", [[6, 5], [6, 2, 3, 4]])
def test_virtual_batches_are_normalized_by_themselves(shape: list[int]) -> None:
    values = np.random.default_rng(2).standard_normal(shape).astype(np.float32) * 3.0 + 1.0
    x = tf.placeholder(tf.float32, [None, *shape[1:]])
    training = tf.placeholder_with_default(True, [])
    y = tf.layers.batch_normalization(x, virtual_batch_size=2, momentum=0.0, training=training, name="norm")
    assert y.shape.as_list() == [None, *shape[1:]]
    names = {variable.op.name: variable.shape.as_list() for variable in tf.global_variables()}
    assert names["norm/gamma"] == [1] * len(shape) + [shape[-1]]  # as in TensorFlow's checkpoints
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        trained, _ = session.run([y, tf.get_collection(tf.GraphKeys.UPDATE_OPS)], {x: values})
        used = session.run(y, {x: values, training: False})
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(y, {x: values[:5]})
    # Three of them: images 0 and 3, 1 and 4, 2 and 5.
    axes = tuple(range(len(shape) - 1))
    expected, parts = np.empty_like(values), [values[i::3] for i in range(3)]
    for i, part in enumerate(parts):
        expected[i::3] = _normalized(part, axes)
    np.testing.assert_allclose(trained, expected, rtol=1e-4, atol=1e-5)
    mean, variance = (np.mean([each(part, axes) for part in parts], axis=0) for each in (np.mean, np.var))
    np.testing.assert_allclose(used, (values - mean) / np.sqrt(variance + 1e-3), rtol=1e-4, atol=1e-5)


def test_virtual_batches_with_renormalization_train() -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    y = tf.layers.batch_normalization(x, virtual_batch_size=4, renorm=True, training=True)
    values = np.random.default_rng(3).standard_normal((8, 3)).astype(np.float32)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first, _ = session.run([y, tf.get_collection(tf.GraphKeys.UPDATE_OPS)], {x: values})
    assert first.shape == (8, 3)
    assert np.isfinite(first).all()


def test_an_adjustment_is_applied_while_training_before_gamma_and_beta() -> None:
    values = np.random.default_rng(4).standard_normal((8, 3)).astype(np.float32)
    x = tf.placeholder(tf.float32, [None, 3])
    training = tf.placeholder(tf.bool, [])
    shapes = []

    def adjust(shape: Any) -> Any:
        shapes.append(shape)
        return tf.fill([shape[0], 1], 2.0), tf.constant(0.5)

    y = tf.layers.batch_normalization(
        x, adjustment=adjust, gamma_initializer=tf.constant_initializer(3.0),
        beta_initializer=tf.constant_initializer(-1.0), training=training, name="norm",
    )  # fmt: skip
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        trained, size = session.run([y, shapes[0]], {x: values, training: True})
        used = session.run(y, {x: values, training: False})
    assert list(size) == [8, 3]
    np.testing.assert_allclose(trained, 3.0 * (2.0 * _normalized(values, (0,)) + 0.5) - 1.0, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(used, 3.0 * values / np.sqrt(1.0 + 1e-3) - 1.0, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "options", "match"),
    [([2, 3], {"axis": 2}, "Invalid axis"), ([2, 3], {"axis": [1, -1]}, "Duplicate"), ([2, None], {}, "undefined"),
     (None, {}, "rank"), ([2, 3], {"virtual_batch_size": 0}, "positive"),
     ([4, 3], {"virtual_batch_size": 2, "axis": 0}, "axis cannot include 0"),
     ([4, 3], {"virtual_batch_size": 2, "adjustment": lambda _: (1.0, 0.0)}, "adjustment"),
     ([2, 3], {"renorm": True, "renorm_clipping": {"r": 1}}, "renorm_clipping")],
)  # fmt: skip
def test_refusals(shape: Any, options: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        tf.layers.batch_normalization(tf.placeholder(tf.float32, shape), **options)
    with pytest.raises(TypeError, match="pred"):
        tf.layers.batch_normalization(tf.zeros([2, 3]), training="yes")


@pytest.mark.parametrize(
    ("shape", "options"),
    [([2, 3], {}), ([4, 3, 3, 4], {"virtual_batch_size": 2}), ([2, 3, 3, 4], {"renorm": True}),
     ([4, 3, 3, 4], {"adjustment": lambda _: (1.0, 0.0)})],
)  # fmt: skip
def test_fused_is_a_wish(shape: Any, options: dict[str, Any]) -> None:
    """Where the fused op does not fit, the composed ones are used, as in TensorFlow 1.15."""
    y = tf.layers.batch_normalization(tf.ones(shape), fused=True, training=True, **options)
    assert not any("FusedBatchNorm" in op.type for op in tf.get_default_graph().get_operations())
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        # Renormalization goes by the moving averages, which are those of no batch yet.
        np.testing.assert_allclose(session.run(y), np.full(shape, float("renorm" in options)), atol=1e-3)
