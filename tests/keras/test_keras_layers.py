"""tf.keras.layers: values against NumPy, names of variables, masks, losses and updates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf

K: Any = tf.keras.backend
L: Any = tf.keras.layers


def run(tensor: Any, feed: Any = None) -> Any:
    return K.get_session().run(tensor, feed)


def hard_sigmoid(x: np.ndarray) -> np.ndarray:
    return np.clip(0.2 * x + 0.5, 0, 1)


def lstm(x: np.ndarray, kernel: np.ndarray, recurrent: np.ndarray, bias: np.ndarray, mask: np.ndarray) -> np.ndarray:
    h = c = np.zeros((len(x), recurrent.shape[0]), np.float32)
    for step in range(x.shape[1]):
        i, f, g, o = np.split(x[:, step] @ kernel + h @ recurrent + bias, 4, axis=1)
        new_c = hard_sigmoid(f) * c + hard_sigmoid(i) * np.tanh(g)
        new_h = hard_sigmoid(o) * np.tanh(new_c)
        counts = mask[:, step : step + 1]
        h, c = np.where(counts, new_h, h), np.where(counts, new_c, c)
    return h


@pytest.mark.parametrize("unroll", [False, True])
def test_lstm_keeps_its_state_in_masked_steps(unroll: bool) -> None:
    x = np.random.default_rng(0).normal(size=(3, 5, 4)).astype(np.float32)
    x[1, 3:] = 0
    layer = L.LSTM(2, unroll=unroll)
    y = layer(L.Masking()(tf.constant(x)))
    expected = lstm(x, *layer.get_weights(), (x != 0).any(-1))
    np.testing.assert_allclose(run(y), expected, rtol=1e-5, atol=1e-6)


def test_bias_of_the_forget_gate_starts_at_one() -> None:
    layer = L.LSTM(2)
    layer(tf.zeros([1, 3, 2]))
    np.testing.assert_array_equal(layer.get_weights()[2], [0, 0, 1, 1, 0, 0, 0, 0])


def test_states_of_a_recurrent_layer_are_returned_and_taken() -> None:
    x = tf.random_normal([2, 4, 3], seed=1)
    whole, h, c = L.LSTM(2, return_sequences=True, return_state=True)(x)
    again = L.GRU(2)(x, initial_state=h)
    assert [each.shape.as_list() for each in (whole, h, c, again)] == [[2, 4, 2], [2, 2], [2, 2], [2, 2]]
    every, last = run([whole, h])
    np.testing.assert_array_equal(every[:, -1], last)


def test_two_layers_of_one_name_have_variables_of_their_own() -> None:
    first, second = L.Dense(2, name="d"), L.Dense(2, name="d")
    first(tf.zeros([1, 3]))
    second(tf.zeros([1, 3]))
    assert [v.name for v in first.weights + second.weights] == ["d/kernel:0", "d/bias:0", "d_1/kernel:0", "d_1/bias:0"]


def test_a_layer_shares_its_variables_between_calls() -> None:
    layer = L.Dense(2, activation="relu", kernel_initializer="ones")
    a, b = layer(tf.ones([1, 3])), layer(2 * tf.ones([1, 3]))
    assert len(layer.weights) == 2
    np.testing.assert_array_equal(run([a, b]), [[[3, 3]], [[6, 6]]])


def test_losses_and_updates_join_no_collection() -> None:
    dense = L.Dense(1, kernel_initializer="ones", kernel_regularizer=tf.keras.regularizers.l2(0.5))
    norm = L.BatchNormalization()
    norm(dense(tf.ones([2, 3])), training=True)
    assert run(dense.losses) == [1.5]
    assert len(norm.updates) == 2
    assert not tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES) and not tf.get_collection(tf.GraphKeys.UPDATE_OPS)


def test_dropout_follows_the_learning_phase() -> None:
    y = L.Dropout(0.5)(tf.ones([100]))
    assert run(y).sum() == 100
    assert (run(y, {K.learning_phase(): True}) == 0).any()


def test_causal_convolution_sees_no_later_step() -> None:
    x = tf.placeholder(tf.float32, [1, 6, 1])
    y = L.Conv1D(1, 2, padding="causal", dilation_rate=2)(x)
    before = run(y, {x: np.ones((1, 6, 1))})
    after = run(y, {x: np.array([1, 1, 1, 1, 9, 9]).reshape(1, 6, 1)})
    np.testing.assert_array_equal(before[0, :4], after[0, :4])


def test_own_layer_adds_weights_by_keyword() -> None:
    class Scale(tf.keras.layers.Layer):  # type: ignore[misc, name-defined]
        def build(self, input_shape: Any) -> None:
            self.factor = self.add_weight(shape=(int(input_shape[-1]),), initializer="ones", name="factor")
            super().build(input_shape)

        def call(self, inputs: Any) -> Any:
            return inputs * self.factor

    layer = Scale()
    np.testing.assert_array_equal(run(layer(np.float32([[2, 3]]))), [[2, 3]])
    assert [v.name for v in layer.trainable_weights] == ["scale/factor:0"]
    with pytest.raises(ValueError, match="expecting 1 weights"):
        layer.set_weights([])
    with pytest.raises(ValueError, match="not compatible"):
        layer.set_weights([np.zeros(3)])
    with pytest.raises(ValueError, match=r"shape of a weight must be known, got \(None, 2\)"):
        layer.add_weight(shape=(None, 2), name="unknown")


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="Unknown activation"):
        L.Dense(1, activation="no")
    with pytest.raises(ValueError, match="Unknown initializer"):
        L.Dense(1, kernel_initializer="no")
    with pytest.raises(ValueError, match="at least 2"):
        L.Add()([tf.ones([1])])
    with pytest.raises(ValueError, match="Invalid permutation"):
        L.Permute((0, 1))


def test_losses_agree_with_numpy() -> None:
    true, guess = np.float32([[0, 1, 0], [1, 0, 0]]), np.float32([[0.1, 0.8, 0.1], [0.6, 0.3, 0.1]])
    loss = tf.keras.losses
    expected = -np.log([0.8, 0.6])
    np.testing.assert_allclose(run(loss.categorical_crossentropy(true, tf.constant(guess))), expected, rtol=1e-5)
    np.testing.assert_allclose(
        run(loss.sparse_categorical_crossentropy([1, 0], tf.constant(guess))), expected, rtol=1e-5
    )
    np.testing.assert_allclose(run(loss.MeanSquaredError()(true, guess)), ((true - guess) ** 2).mean(), rtol=1e-6)
    logits = tf.constant([[200.0, 0.0]])
    assert run(loss.categorical_crossentropy([[0.0, 1.0]], tf.nn.softmax(logits)))[0] == 200


def test_sequences_become_rows() -> None:
    pad = tf.keras.preprocessing.sequence.pad_sequences
    np.testing.assert_array_equal(pad([[1, 2, 3], [4]], 2), [[2, 3], [0, 4]])
    np.testing.assert_array_equal(pad([[1, 2, 3], [4]], 2, padding="post", truncating="post"), [[1, 2], [4, 0]])
    with pytest.raises(ValueError, match="non-iterable"):
        pad([1, 2])
    words = tf.keras.preprocessing.text.Tokenizer(num_words=3)
    words.fit_on_texts(["the cat, the dog", "the cat"])
    assert words.texts_to_sequences(["a cat the dog"]) == [[2, 1]]
