"""tf.keras models: training, several outputs, repeated calls, weights in files, callbacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf

L: Any = tf.keras.layers


def data(count: int = 256) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(1).normal(size=(count, 4)).astype(np.float32)
    return x, (x[:, 0] > 0).astype(np.int64)


def classifier() -> Any:
    tf.set_random_seed(1)
    return tf.keras.Sequential([L.Dense(8, activation="relu", input_shape=(4,)), L.Dense(2, activation="softmax")])


@pytest.mark.parametrize("optimizer", ["adam", "sgd", "rmsprop", "adagrad", "adamax", "adadelta", "ftrl"])
def test_every_optimizer_lowers_the_loss(optimizer: str) -> None:
    model, (x, y) = classifier(), data()
    model.compile(tf.keras.optimizers.get(optimizer), "sparse_categorical_crossentropy", metrics=["accuracy"])
    history = model.fit(x, y, epochs=3, verbose=0, validation_split=0.25).history
    assert history["loss"][-1] < history["loss"][0]
    assert sorted(history) == ["acc", "loss", "val_acc", "val_loss"]


def test_rmsprop_is_kerass_rule() -> None:
    layer = L.Dense(1, use_bias=False, kernel_initializer="ones", input_shape=(1,))
    model = tf.keras.Sequential([layer])
    model.compile(tf.keras.optimizers.RMSprop(lr=0.1), "mse")
    model.train_on_batch(np.float32([[1]]), np.float32([[0]]))
    np.testing.assert_allclose(layer.get_weights()[0], [[1 - 0.1 * 2 / (np.sqrt(0.1 * 4) + 1e-7)]], rtol=1e-5)


def test_a_model_trains_with_an_optimizer_of_tf_train_and_a_subclass() -> None:
    class Net(tf.keras.Model):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__(name="net")
            self.first, self.second = L.Dense(8, activation=tf.nn.relu), L.Dense(1)

        def call(self, inputs: Any, training: Any = None) -> Any:
            return self.second(self.first(inputs))

    model, (x, _) = Net(), data()
    model.compile(tf.train.AdamOptimizer(0.01), loss="mse")
    losses = model.fit(x, x[:, :1], epochs=4, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    assert len(model.trainable_variables) == 4
    assert model.predict(x).shape == (256, 1)


def test_a_graph_of_layers_is_repeated_on_other_inputs() -> None:
    a, b = L.Input((3,)), L.Input((3,))
    total = L.add([a, b]) * 2.0  # An operation that is no layer.
    model = tf.keras.Model([a, b], [L.Dense(2)(total), L.Flatten()(total)])
    again = model([tf.ones([1, 3]), tf.ones([1, 3])])
    session = tf.keras.backend.get_session()
    ones = np.ones((1, 3), np.float32)
    for left, right in zip(session.run(again), model.predict([ones, ones]), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-6)
    assert len(model.weights) == 2


def test_several_outputs_have_losses_of_their_own() -> None:
    x = L.Input((4,))
    model = tf.keras.Model(x, [L.Dense(1, name="a")(x), L.Dense(2, activation="softmax", name="b")(x)])
    model.compile("sgd", {"a": "mse", "b": "sparse_categorical_crossentropy"}, loss_weights=[1.0, 0.5])
    inputs, labels = data()
    history = model.fit(inputs, [inputs[:, 0], labels], epochs=2, verbose=0).history
    assert sorted(history) == ["a_loss", "b_loss", "loss"]
    np.testing.assert_allclose(history["loss"][0], history["a_loss"][0] + 0.5 * history["b_loss"][0], rtol=1e-4)


def test_weights_move_through_a_file(tmp_path: Path) -> None:
    model, (x, _) = classifier(), data()
    before = model.predict(x)
    model.save_weights(str(tmp_path / "weights"))
    model.set_weights([np.zeros_like(each) for each in model.get_weights()])
    assert not np.allclose(model.predict(x), before)
    model.load_weights(str(tmp_path / "weights"))
    np.testing.assert_array_equal(model.predict(x), before)
    with pytest.raises(NotImplementedError, match="HDF5"):
        model.save_weights(str(tmp_path / "weights.h5"))


def test_callbacks_stop_training_and_set_the_rate() -> None:
    model, (x, y) = classifier(), data()
    model.compile(tf.keras.optimizers.SGD(0.0), "sparse_categorical_crossentropy")
    stop = tf.keras.callbacks.EarlyStopping("loss", min_delta=1e-3, patience=2)
    rates: list[float] = []
    note = tf.keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: rates.append(float(tf.keras.backend.get_value(model.optimizer.lr)))
    )
    plan = tf.keras.callbacks.LearningRateScheduler(lambda epoch: 0.0 * epoch)
    model.fit(x, y, epochs=10, verbose=0, callbacks=[plan, note, stop])
    assert rates == [0.0] * 3


def test_training_from_a_generator() -> None:
    model, (x, y) = classifier(), data()
    model.compile("adam", "sparse_categorical_crossentropy")
    batches = ((x[i : i + 32], y[i : i + 32]) for _ in range(3) for i in range(0, 256, 32))
    assert len(model.fit_generator(batches, steps_per_epoch=8, epochs=3, verbose=0).history["loss"]) == 3


def test_mistakes_are_named() -> None:
    x, y = data()
    with pytest.raises(RuntimeError, match="compile"):
        classifier().fit(x, y)
    with pytest.raises(ValueError, match="No such layer"):
        classifier().get_layer("no")
    with pytest.raises(TypeError, match="instance of class Layer"):
        tf.keras.Sequential([3])
    model = classifier()
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="same number"):
        model.fit(x, y[:3], verbose=0)
    with pytest.raises(FileNotFoundError, match="Nothing is downloaded"):
        tf.keras.datasets.mnist.load_data("/nowhere/mnist.npz")
