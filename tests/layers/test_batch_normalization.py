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
def test_other_types(dtype: str, shape: Any) -> None:
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


@pytest.mark.parametrize(
    ("shape", "options", "match"),
    [([2, 3], {"axis": 2}, "Invalid axis"), ([2, 3], {"axis": [1, -1]}, "Duplicate"), ([2, None], {}, "undefined"),
     (None, {}, "rank"), ([2, 3], {"fused": True}, "fused"), ([2, 3], {"virtual_batch_size": 2}, "support"),
     ([2, 3], {"renorm": True, "renorm_clipping": {"r": 1}}, "renorm_clipping"),
     ([2, 3, 3, 4], {"renorm": True, "fused": True}, "renorm")],
)  # fmt: skip
def test_refusals(shape: Any, options: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        tf.layers.batch_normalization(tf.placeholder(tf.float32, shape), **options)
    with pytest.raises(TypeError, match="pred"):
        tf.layers.batch_normalization(tf.zeros([2, 3]), training="yes")
