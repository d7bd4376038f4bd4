"""SavedModels of objects where ops run at once: those of TensorFlow 2 (data/make_saved_models.py), and our own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf

MODELS = Path(__file__).parents[1] / "data" / "saved_models"


@pytest.fixture(autouse=True)
def eagerly() -> Iterator[None]:
    """Objects are loaded where ops run at once."""
    with tf.eager():
        yield


class Part(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = tf.Variable([[1.0, 2.0], [3.0, 4.0]], name="w")


class Model(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = [Part(), Part()]
        self.by_name = {"shift": tf.Variable(2.0)}
        self.offset = tf.constant([10.0, 20.0])
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False)

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32), tf.TensorSpec([], tf.int32)])
    def run(self, x: Any, n: Any) -> Any:
        for _ in tf.range(n):
            x = tf.matmul(x, self.parts[0].w) * 0.1
            if tf.reduce_sum(x) > 3.0:
                x = x - self.by_name["shift"]
        self.steps.assign_add(1)
        return {"y": x + self.offset, "steps": self.steps.read_value()}

    @tf.function
    def squared(self, x: Any) -> Any:
        y = tf.square(tf.matmul(x, self.parts[0].w))
        return tf.cond(tf.reduce_sum(y) > 3.0, lambda: y - self.by_name["shift"], lambda: y)

    @tf.function
    def __call__(self, x: Any, training: bool = False, *, scale: float = 1.0) -> Any:
        return (x * 2.0 if training else x) * scale, None


X = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)


def reloaded(model: Any, folder: Path, signatures: Any = None) -> Any:
    tf.saved_model.save(model, str(folder / "model"), signatures)
    return tf.saved_model.load(str(folder / "model"))


def test_functions_and_variables_of_a_model_of_tensorflow_2() -> None:
    model = tf.saved_model.load(str(MODELS / "traced"))
    y = model.serve(tf.constant(X))["y"].numpy()
    expected = X * np.array([2.0, -1.0], np.float32)
    for _ in range(3):
        expected = np.tanh(expected) + X
    np.testing.assert_allclose(y, expected * 2.0, rtol=1e-6)
    assert model.counted(tf.constant(3))["count"].numpy() == 3
    assert model.count.numpy() == 3
    model.w.assign([0.0, 0.0])
    assert not np.allclose(model.signatures["serving_default"](x=tf.constant(X))["y"], y)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model.serve(tf.constant(X))["y"])
    assert tape.gradient(loss, model.w).shape == [2]


def test_tables_of_a_model_of_tensorflow_2() -> None:
    model = tf.saved_model.load(str(MODELS / "words"))
    found = model.serve(tf.constant(["The dog, the fox!", "", "a dog"]))
    assert found["lengths"].numpy().tolist() == [4, 0, 2]
    assert found["ids"].numpy()[0].tolist() == [0, 1, 0, 2]


def test_a_model_that_was_saved_here(tmp_path: Path) -> None:
    model = Model()
    model.parts[1].w.assign(np.eye(2, dtype=np.float32))
    x = tf.constant(X)
    for options in ({}, {"training": True}, {"training": True, "scale": 3.0}):
        model(x, **options)
    loaded = reloaded(model, tmp_path, {"serving_default": model.run})
    expected = model.run(x, tf.constant(3))
    got = loaded.run(x, 3)
    np.testing.assert_array_equal(got["y"], expected["y"])
    assert (loaded.steps.numpy(), got["steps"].numpy()) == (1, 1)
    assert loaded.parts[1].w.numpy().tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert [v.trainable for v in (loaded.steps, loaded.by_name["shift"])] == [False, True]
    assert loaded(x)[0].numpy().tolist() == X.tolist()
    assert loaded(x, True)[0].numpy().tolist() == (X * 2.0).tolist()
    assert loaded(x, training=True, scale=3.0)[0].numpy().tolist() == (X * 6.0).tolist()
    assert loaded(x)[1] is None
    served = loaded.signatures["serving_default"](x=x, n=tf.constant(1))
    assert sorted(served) == ["steps", "y"]
    with pytest.raises(ValueError, match="not traced for"):
        loaded(x, scale=7.0)
    with pytest.raises(TypeError, match="takes the tensors"):
        loaded.signatures["serving_default"](x)


def test_gradients_through_loaded_functions_and_a_second_round(tmp_path: Path) -> None:
    model, x = Model(), tf.constant(X)
    variables = [model.parts[0].w, model.by_name["shift"]]
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model.squared(x))
    expected = tape.gradient(loss, variables)
    loaded = reloaded(model, tmp_path)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(loaded.squared(x))
    found = tape.gradient(loss, [loaded.parts[0].w, loaded.by_name["shift"]])
    for grad, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(grad, wanted, rtol=1e-5)
    loaded.run(x, 1)
    path = tf.train.Checkpoint(model=loaded).save(str(tmp_path / "checkpoint"))
    tf.train.Checkpoint(model=model).restore(path)
    assert model.steps.numpy() == 1


def test_a_session_serves_what_was_saved_here(tmp_path: Path) -> None:
    model = Model()
    model.by_name["shift"].assign(0.5)
    tf.saved_model.save(model, str(tmp_path / "model"), {"serving_default": model.run})
    with tf.Graph().as_default(), tf.Session() as session:
        signature = tf.saved_model.load(session, ["serve"], str(tmp_path / "model")).signature_def["serving_default"]
        feeds = {signature.inputs["x"].name: X, signature.inputs["n"].name: 1}
        y = session.run(signature.outputs["y"].name, feeds)
    np.testing.assert_allclose(y, model.run(tf.constant(X), tf.constant(1))["y"], rtol=1e-6)


def test_what_cannot_be_saved_or_loaded(tmp_path: Path) -> None:
    outside = tf.Variable(1.0)

    class Leaky(tf.Module):
        @tf.function(input_signature=[])
        def read(self) -> Any:
            return outside * 2.0

    with pytest.raises(ValueError, match="set it as an attribute"):
        tf.saved_model.save(Leaky(), str(tmp_path / "leaky"))
    with pytest.raises(OSError, match="does not exist"):
        tf.saved_model.load(str(tmp_path / "nothing"))
    with pytest.raises(TypeError, match="a directory alone"):
        tf.saved_model.load(object())
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match="run at once"):
        tf.saved_model.load_v2(str(MODELS / "traced"))
