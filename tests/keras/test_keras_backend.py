"""tf.keras.backend against NumPy, and layers that TensorFlow's documentation gives equations for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf

K = tf.keras.backend
_X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)


@pytest.fixture(autouse=True)
def _fresh() -> Any:
    K.clear_session()
    yield
    K.clear_session()


def test_indices_of_extremes_are_those_of_the_last_axis() -> None:
    assert K.eval(K.argmax(K.constant(_X))).tolist() == _X.argmax(-1).tolist()
    assert K.eval(K.argmin(K.constant(_X))).tolist() == _X.argmin(-1).tolist()


def test_mean_of_booleans_is_a_share() -> None:
    assert K.eval(K.mean(K.equal(K.constant([1.0, 2.0]), K.constant([1.0, 3.0])))) == 0.5


def test_new_axis_is_the_last_one_and_one_axis_may_be_reversed() -> None:
    assert K.eval(K.expand_dims(K.constant(_X))).shape == (2, 3, 4, 1)
    np.testing.assert_array_equal(K.eval(K.reverse(K.constant(_X), 1)), _X[:, ::-1])


def test_causal_convolution_sees_nothing_that_comes_later() -> None:
    kernel = K.constant(np.ones((2, 4, 1), np.float32))
    rows = _X.sum(-1)
    expected = rows + np.pad(rows, [(0, 0), (1, 0)])[:, :-1]
    np.testing.assert_allclose(K.eval(K.conv1d(K.constant(_X), kernel, padding="causal"))[..., 0], expected, 1e-5)


@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_pools_know_both_layouts(data_format: str) -> None:
    images = np.arange(32, dtype=np.float32).reshape(1, 4, 4, 2)
    expected = images.reshape(1, 2, 2, 2, 2, 2).mean((2, 4))
    first = data_format == "channels_first"
    x = K.constant(images.transpose(0, 3, 1, 2) if first else images)
    out = K.eval(K.pool2d(x, (2, 2), (2, 2), data_format=data_format, pool_mode="avg"))
    np.testing.assert_allclose(out.transpose(0, 2, 3, 1) if first else out, expected)


def test_bias_belongs_to_the_channels_of_either_layout() -> None:
    images, bias = np.ones((1, 2, 2, 3), np.float32), np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(K.eval(K.bias_add(K.constant(images), K.constant(bias))), images + bias)
    out = K.eval(K.bias_add(K.constant(images.transpose(0, 3, 1, 2)), K.constant(bias), "channels_first"))
    np.testing.assert_array_equal(out.transpose(0, 2, 3, 1), images + bias)


def test_learning_phase_has_a_value_inside_of_its_scope_only() -> None:
    outside = K.learning_phase()
    with K.learning_phase_scope(1):
        assert K.learning_phase() == 1
    assert K.learning_phase() is outside


def test_penalties_of_outputs_are_means_over_examples() -> None:
    layer = tf.keras.layers.Dense(2, activity_regularizer=tf.keras.regularizers.l2(0.5))
    out = layer(K.constant(_X[:, 0]))
    value, loss = K.get_session().run([out, layer.losses[0]])
    assert loss == pytest.approx(0.5 * (value**2).sum() / 2, rel=1e-5)


def test_local_layers_have_a_filter_for_each_place() -> None:
    layer = tf.keras.layers.LocallyConnected1D(2, 2)
    out = layer(K.constant(_X))
    kernel, bias = layer.get_weights()
    windows = np.stack([_X[:, i : i + 2].reshape(2, -1) for i in range(2)], 1)
    np.testing.assert_allclose(K.eval(out), np.einsum("bpw,pwf->bpf", windows, kernel) + bias, rtol=1e-5, atol=1e-6)


def test_local_layers_of_images_fit_a_convolution_where_all_filters_are_the_same() -> None:
    images = np.random.default_rng(1).normal(size=(2, 5, 5, 3)).astype(np.float32)
    layer = tf.keras.layers.LocallyConnected2D(2, (3, 2), strides=2, use_bias=False)
    out = layer(K.constant(images))
    kernel = np.random.default_rng(2).normal(size=(3, 2, 3, 2)).astype(np.float32)
    layer.set_weights([np.broadcast_to(kernel.reshape(1, 18, 2), (4, 18, 2))])
    np.testing.assert_allclose(
        K.eval(out), K.eval(K.conv2d(K.constant(images), K.constant(kernel), (2, 2))), rtol=1e-4, atol=1e-5
    )


def test_attention_weighs_values_by_their_products_with_queries() -> None:
    query, value = _X[:, :2], _X
    scores = query @ value.transpose(0, 2, 1)
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    out = tf.keras.layers.Attention()([K.constant(query), K.constant(value)])
    np.testing.assert_allclose(K.eval(out), weights @ value, rtol=1e-5, atol=1e-6)


def test_cudnn_names_give_the_usual_layers_with_two_biases() -> None:
    lstm = tf.keras.layers.CuDNNLSTM(2)
    out = lstm(K.constant(_X))
    usual = tf.keras.layers.LSTM(2, recurrent_activation="sigmoid")
    other = usual(K.constant(_X))
    kernel, recurrent, bias = lstm.get_weights()
    assert bias.shape == (16,)
    bias = np.random.default_rng(3).normal(size=16).astype(np.float32)
    lstm.set_weights([kernel, recurrent, bias])
    usual.set_weights([kernel, recurrent, bias[:8] + bias[8:]])
    np.testing.assert_allclose(K.eval(out), K.eval(other), rtol=1e-5, atol=1e-6)


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    x = np.random.default_rng(4).normal(size=(20000, 4)).astype(np.float32)
    out = K.eval(tf.keras.layers.AlphaDropout(0.3, seed=7)(K.constant(x), training=True))
    assert abs(out.mean()) < 0.02
    assert abs(out.std() - 1) < 0.02
