"""tf.contrib.tpu without TPUs: estimators, their settings, and what one replica does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf

tpu = tf.contrib.tpu


@pytest.fixture(autouse=True)
def _event_files_closed() -> Iterator[None]:
    yield
    tf.summary.FileWriterCache.clear()


def input_fn(params: Any) -> Any:
    x = {"x": np.ones([8, 2], np.float32)}
    data = tf.data.Dataset.from_tensor_slices((x, np.ones([8, 1], np.float32)))
    return data.repeat().batch(params["batch_size"], drop_remainder=True)


class Model:
    """A model function that notes the params and the values that it meets."""

    def __init__(self) -> None:
        self.params: list[tuple[str, Any, Any]] = []
        self.host_values: list[float] = []

    def _note(self, loss: Any) -> Any:
        self.host_values.append(float(loss))
        return np.float32(0)

    def __call__(self, features: Any, labels: Any, mode: str, params: Any) -> Any:
        self.params.append((mode, params.get("batch_size"), params["use_tpu"]))
        y = tf.layers.dense(features["x"], 1)
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tpu.TPUEstimatorSpec(mode, predictions={"y": y})
        loss = tf.losses.mean_squared_error(labels, y)
        optimizer = tpu.CrossShardOptimizer(tf.train.GradientDescentOptimizer(0.1))
        return tpu.TPUEstimatorSpec(
            mode,
            loss=loss,
            train_op=optimizer.minimize(loss, tf.train.get_global_step()),
            eval_metrics=(lambda a, b: {"error": tf.metrics.mean_absolute_error(a, b)}, {"a": labels, "b": y}),
            host_call=(lambda value: tf.py_func(self._note, [value], tf.float32), [loss]),
        )


def config(tmp_path: Path) -> Any:
    settings = tpu.TPUConfig(iterations_per_loop=5, num_shards=8)
    return tpu.RunConfig(
        tpu_config=settings, model_dir=str(tmp_path / "model"), save_checkpoints_steps=5, tf_random_seed=1
    )


def estimator(tmp_path: Path, model: Model) -> Any:
    return tpu.TPUEstimator(
        model, config=config(tmp_path), use_tpu=False, train_batch_size=4, eval_batch_size=2, predict_batch_size=8
    )


def test_an_estimator_trains_and_its_functions_know_the_batch_size(tmp_path: Path) -> None:
    model = Model()
    trained = estimator(tmp_path, model).train(input_fn, max_steps=30)
    results = trained.evaluate(input_fn, steps=3)
    assert results["loss"] < 1e-3 and results["error"] < 0.03 and results["global_step"] == 30
    np.testing.assert_allclose(next(trained.predict(input_fn))["y"], [1.0], atol=0.03)
    assert model.params == [("train", 4, False), ("eval", 2, False), ("infer", 8, False)]
    assert len(model.host_values) == 33, "once in each step of training and evaluation"


def test_an_exported_model_has_no_batch_size(tmp_path: Path) -> None:
    model = Model()
    trained = estimator(tmp_path, model).train(input_fn, max_steps=1)
    receiver = tf.estimator.export.build_raw_serving_input_receiver_fn({"x": tf.placeholder(tf.float32, [None, 2])})
    folder = trained.export_saved_model(str(tmp_path / "export"), receiver)
    assert model.params[-1] == ("infer", None, False)
    predict = tf.contrib.predictor.from_saved_model(folder.decode())
    assert predict({"x": np.ones([3, 2])})["y"].shape == (3, 1)


def test_what_needs_a_tpu_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="use_tpu=False"):
        tpu.TPUEstimator(Model(), config=config(tmp_path), train_batch_size=4)
    with pytest.raises(ValueError, match="RunConfig"):
        tpu.TPUEstimator(Model(), config=tf.estimator.RunConfig(), use_tpu=False)
    with pytest.raises(ValueError, match="reserved"):
        tpu.TPUEstimator(Model(), config=config(tmp_path), use_tpu=False, params={"batch_size": 3})
    with pytest.raises(ValueError, match="iterations_per_loop must be positive"):
        tpu.TPUConfig(iterations_per_loop=0)
    with pytest.raises(ValueError, match="host_call"):
        tpu.TPUEstimatorSpec("eval", loss=tf.constant(1.0), host_call=3)


def test_settings_for_tpus_are_kept_and_replaced(tmp_path: Path) -> None:
    first = config(tmp_path)
    changed = first.replace(tpu_config=tpu.TPUConfig(7), keep_checkpoint_max=2)
    assert (first.tpu_config.iterations_per_loop, changed.tpu_config.iterations_per_loop) == (5, 7)
    assert changed.keep_checkpoint_max == 2 and isinstance(changed, tpu.RunConfig)
    assert tpu.RunConfig(master="grpc://there:1").evaluation_master == "grpc://there:1"
    assert tf.estimator.tpu.TPUEstimator is tpu.TPUEstimator


def test_params_may_be_hyperparameters(tmp_path: Path) -> None:
    params = tf.contrib.training.HParams(rate=0.5)
    seen = []

    def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
        seen.append((params.rate, params.batch_size, params.use_tpu))
        return tpu.TPUEstimatorSpec(mode, predictions={"y": features["x"]}, loss=tf.constant(0.0), train_op=tf.no_op())

    made = tpu.TPUEstimator(model_fn, params=params, config=config(tmp_path), use_tpu=False, eval_batch_size=2)
    with tf.Graph().as_default():
        tf.train.create_global_step()
        features, labels = made._features_and_labels(lambda params: input_fn(params.values()), "eval")
        made._call_model_fn(features, labels, "eval")
    assert seen == [(0.5, 2, False)] and "batch_size" not in params.values()


def test_variables_of_a_bfloat16_scope_are_kept_in_float32() -> None:
    with tf.Graph().as_default():
        with tpu.bfloat16_scope():
            given = tf.get_variable("v", [2], tf.bfloat16)
            other = tf.get_variable("w", [2])
        assert given.dtype == tf.bfloat16 and other.dtype.base_dtype == tf.float32
        assert [v.dtype.base_dtype for v in tf.global_variables()] == [tf.float32, tf.float32]
