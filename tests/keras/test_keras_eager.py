"""Keras where ops run at once: models called on values, trained by `fit` and by tapes, saved and read again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import thalweg as tf

K = tf.keras


@pytest.fixture(autouse=True)
def at_once() -> Iterator[None]:
    with tf.eager():
        yield
        K.backend.clear_session()


def numbers(seed: int) -> Any:
    """An initializer whose values depend on the seed and the shape only."""
    return lambda shape, dtype=None, partition_info=None: tf.constant(
        np.random.RandomState(seed).randn(*shape).astype(np.float32) * 0.3
    )


@pytest.fixture
def data() -> tuple[np.ndarray, np.ndarray]:
    x = np.random.RandomState(0).rand(64, 4).astype(np.float32)
    return x, (x.sum(1) > 2).astype(np.int32)


def small_model(**kwargs: Any) -> Any:
    return K.Sequential([
        K.layers.Dense(3, activation="relu", kernel_initializer=numbers(1), **kwargs),
        K.layers.Dense(2, activation="softmax", kernel_initializer=numbers(2),
                       kernel_regularizer=K.regularizers.l2(0.01)),
    ])  # fmt: skip


def test_fit_gives_what_tensorflow_gives(data: Any) -> None:
    x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(16, 4)
    y = np.arange(16) % 2
    model = small_model()
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    history = model.fit(x, y, epochs=3, batch_size=5, verbose=0, shuffle=False, validation_data=(x, y)).history
    by_graph = tf.Graph()
    with by_graph.as_default(), tf.Session():
        same = small_model(input_shape=(4,))
        same.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
        expected = same.fit(x, y, epochs=3, batch_size=5, verbose=0, shuffle=False, validation_data=(x, y)).history
    assert history.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(history[name], values, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adagrad", "adadelta", "rmsprop", "adamax", "ftrl"])
def test_every_optimizer_trains_in_both_modes_alike(data: Any, optimizer: str) -> None:
    x, y = data

    def losses(run_eagerly: bool) -> list[float]:
        model = small_model()
        model.compile(optimizer, "sparse_categorical_crossentropy", run_eagerly=run_eagerly)
        return [model.train_on_batch(x, y) for _ in range(3)]

    compiled = losses(False)
    np.testing.assert_allclose(compiled, losses(True), rtol=1e-5)
    assert compiled[-1] < compiled[0] or optimizer == "ftrl"


def test_a_described_model_takes_values_and_ops_between_its_layers(data: Any) -> None:
    x, _ = data
    first, second = K.Input((4,)), K.Input((2,))
    scale = tf.Variable(2.0)
    hidden = K.layers.Dense(3, kernel_initializer=numbers(3))(first * scale + 1.0)
    joined = K.layers.concatenate([hidden, second])
    model = K.Model([first, second], [tf.nn.relu(joined), K.layers.Dense(1, kernel_initializer=numbers(4))(joined)])
    positive, out = model([x, x[:, :2]])
    by_hand = np.concatenate([(x * 2 + 1) @ numbers(3)((4, 3)).numpy(), x[:, :2]], 1)
    np.testing.assert_allclose(positive.numpy(), np.maximum(by_hand, 0), rtol=1e-5)
    np.testing.assert_allclose(out.numpy(), by_hand @ numbers(4)((5, 1)).numpy(), rtol=1e-5)
    scale.assign(0.0)  # The model reads the variable when it is called.
    np.testing.assert_allclose(model([x, x[:, :2]])[0].numpy()[:, 0], max(numbers(3)((4, 3)).numpy()[:, 0].sum(), 0.0),
                               rtol=1e-5)  # fmt: skip


class WithPhases(K.Model):  # type: ignore[misc]
    """A subclass that asks for the phase."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = K.layers.Dense(3, kernel_initializer=numbers(6))
        self.norm = K.layers.BatchNormalization(momentum=0.5)
        self.drop = K.layers.Dropout(0.5)
        self.out = K.layers.Dense(1, kernel_initializer=numbers(7))

    def call(self, inputs: Any, training: Any = None) -> Any:
        return self.out(self.drop(self.norm(self.dense(inputs)), training=training))


def test_the_phase_of_a_call_reaches_the_layers(data: Any) -> None:
    x, _ = data
    model = WithPhases()
    calm = model(x)
    np.testing.assert_array_equal(calm.numpy(), model(x).numpy())
    np.testing.assert_array_equal(model.norm.get_weights()[2], np.zeros(3))
    assert not np.array_equal(model(x, training=True).numpy(), model(x, training=True).numpy())
    mean = (x @ model.dense.get_weights()[0]).mean(0)
    np.testing.assert_allclose(model.norm.get_weights()[2], mean * 0.75, rtol=1e-4)


def test_tapes_train_a_model_with_losses_of_its_layers(data: Any) -> None:
    x, y = data
    model = small_model()
    optimizer, mean = K.optimizers.Adam(0.05), K.metrics.Mean()
    loss_of = K.losses.SparseCategoricalCrossentropy()
    for _ in range(30):
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True)) + tf.add_n(model.losses)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        mean(loss)
    assert len(model.losses) == 1
    assert float(loss) < float(mean.result())
    assert int(optimizer.iterations) == 30
    mean.reset_states()
    assert float(mean.result()) == 0.0


def test_losses_of_activities_are_those_of_the_last_call() -> None:
    layer = K.layers.Dense(2, kernel_initializer="ones", activity_regularizer=K.regularizers.l2(1.0))
    for factor in (1.0, 2.0):
        layer(np.full((1, 1), factor, np.float32))
        assert [float(loss) for loss in layer.losses] == [2.0 * factor**2]


def test_a_loss_of_a_described_model_is_computed_for_each_call(data: Any) -> None:
    x, _ = data
    inputs = K.Input((4,))
    code = K.layers.Dense(2, kernel_initializer=numbers(1))(inputs)
    model = K.Model(inputs, K.layers.Dense(4, kernel_initializer=numbers(2))(code))
    model.add_loss(tf.reduce_mean(tf.square(code)))
    model(x[:1])
    once = float(model.losses[0])
    model(x[:1] * 2)
    np.testing.assert_allclose([float(loss) for loss in model.losses], [4 * once], rtol=1e-5)
    model.compile("sgd", "mse")
    assert model.fit(x, x, epochs=2, verbose=0).history["loss"][1] < 10


def test_fit_goes_over_datasets_and_metrics_gather(data: Any) -> None:
    x, y = data
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(24)
    model = small_model()
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=[K.metrics.SparseCategoricalAccuracy()])
    assert len(model.fit(dataset, epochs=2, verbose=0).history["loss"]) == 2
    loss, accuracy = model.evaluate(dataset, verbose=0)
    np.testing.assert_allclose([loss, accuracy], model.evaluate(x, y, verbose=0), rtol=1e-5)
    assert accuracy == np.mean(model.predict(dataset).argmax(1) == y)


def test_weights_are_written_and_read_also_before_the_model_has_any(data: Any, tmp_path: Any) -> None:
    x, _ = data
    model, path = small_model(), os.fspath(tmp_path / "weights")
    expected = model(x).numpy()
    model.save_weights(path)
    names = [name for name, _ in tf.train.list_variables(path)]
    assert "layer-0/kernel/.ATTRIBUTES/VARIABLE_VALUE" in names
    other = K.Sequential([K.layers.Dense(3, activation="relu"), K.layers.Dense(2, activation="softmax")])
    other.load_weights(path)
    np.testing.assert_array_equal(other(x).numpy(), expected)


def test_checkpoints_hold_a_model_and_its_optimizer(data: Any, tmp_path: Any) -> None:
    x, y = data

    def made() -> tuple[Any, Any, Any]:
        model, optimizer = small_model(), K.optimizers.Adam(0.1)
        return model, optimizer, tf.train.Checkpoint(model=model, optimizer=optimizer)

    def step(model: Any, optimizer: Any) -> float:
        with tf.GradientTape() as tape:
            loss = K.losses.SparseCategoricalCrossentropy()(y, model(x))
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_weights), model.trainable_weights, strict=True)
        )
        return float(loss)

    model, optimizer, checkpoint = made()
    step(model, optimizer)
    path = checkpoint.save(os.fspath(tmp_path / "ckpt"))
    expected = [step(model, optimizer) for _ in range(2)]
    again, rate, restored = made()
    step(again, rate)
    restored.restore(path)
    assert [step(again, rate) for _ in range(2)] == expected
    names = [name for name, _ in tf.train.list_variables(path)]
    assert "model/layer-0/kernel/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES/VARIABLE_VALUE" in names


def test_functions_use_models(data: Any) -> None:
    x, _ = data
    model = WithPhases()
    model(x)
    compiled = tf.function(lambda value: model(value))
    np.testing.assert_allclose(compiled(tf.constant(x)).numpy(), model(x).numpy(), rtol=1e-5)


def test_calls_keep_nothing_alive(data: Any) -> None:
    x, _ = data
    model = small_model()
    for _ in range(3):
        model(x)
    assert not model._recorded_calls
    assert not any(layer._recorded_calls for layer in model.layers)


def test_masks_pass_between_layers() -> None:
    words = np.array([[1, 2, 0, 0], [3, 0, 0, 0]])
    layers = [K.layers.Embedding(5, 3, mask_zero=True, embeddings_initializer=numbers(1)),
              K.layers.LSTM(2, kernel_initializer=numbers(2), recurrent_initializer=numbers(3))]  # fmt: skip
    masked = K.Sequential(layers)(words).numpy()
    embedded = layers[0](words[:1, :2])
    np.testing.assert_allclose(masked[:1], layers[1](embedded).numpy(), rtol=1e-5)


def test_mistakes_are_explained(data: Any) -> None:
    x, y = data
    with pytest.raises(RuntimeError, match="compile"):
        small_model().fit(x, y, verbose=0)
    with pytest.raises(ValueError, match="function without arguments"):
        K.optimizers.SGD().minimize(tf.constant(1.0), [tf.Variable(1.0)])
    model = small_model()
    model.compile("sgd", "mse", metrics=["mae"])
    with pytest.raises(ValueError, match="1 outputs, but the data has 2"):
        model.train_on_batch(x, [x, x])
