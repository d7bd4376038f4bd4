"""tf.estimator.Estimator: training, evaluation, prediction, export, warm start."""

from __future__ import annotations

import functools
import glob
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf

X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(8, 1)
Y = 3 * X + 1


def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
    w = tf.get_variable("w", [1, 1], initializer=tf.zeros_initializer())
    b = tf.get_variable("b", [1], initializer=tf.zeros_initializer())
    y = tf.matmul(features["x"], w) + b
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"y": y, "x": features["x"]})
    loss = tf.reduce_mean(tf.square(y - labels))
    if mode == tf.estimator.ModeKeys.EVAL:
        metrics = {"mae": tf.metrics.mean_absolute_error(labels, y)}
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    step = tf.train.GradientDescentOptimizer(params["rate"]).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step)


def inputs(epochs: int | None = None, shuffle: bool = False, batch: int = 8) -> Any:
    return tf.estimator.inputs.numpy_input_fn({"x": X}, Y, batch, epochs, shuffle)


def estimator(folder: Any, **kwargs: Any) -> Any:
    return tf.estimator.Estimator(model_fn, str(folder), params={"rate": 0.5}, **kwargs)


def test_train_evaluate_predict(tmp_path: Path) -> None:
    model = estimator(tmp_path).train(inputs(), steps=60)
    assert model.get_variable_names() == ["b", "global_step", "w"]
    np.testing.assert_allclose(model.get_variable_value("w"), [[3]], atol=1e-3)
    results = model.evaluate(inputs(1, batch=3), name="held_out")
    assert results["global_step"] == 60 and results["mae"] < 1e-2 and results["loss"] < 1e-4
    assert glob.glob(str(tmp_path / "eval_held_out" / "events*"))
    rows = list(model.predict(inputs(1, batch=3)))
    assert len(rows) == 8
    np.testing.assert_allclose([row["y"] for row in rows], Y, atol=1e-2)
    (batch,) = model.predict(inputs(1), predict_keys="y", yield_single_examples=False)
    assert set(batch) == {"y"} and batch["y"].shape == (8, 1)


def test_training_goes_on_from_the_last_checkpoint_until_max_steps(tmp_path: Path) -> None:
    estimator(tmp_path).train(inputs(), steps=5)
    again = estimator(tmp_path).train(inputs(), max_steps=12)
    assert again.get_variable_value("global_step") == 12
    again.train(inputs(), max_steps=10)
    assert again.get_variable_value("global_step") == 12
    with pytest.raises(ValueError, match="both"):
        again.train(inputs(), steps=1, max_steps=2)
    with pytest.raises(ValueError, match="steps > 0"):
        again.train(inputs(), steps=0)


def test_training_ends_with_the_input(tmp_path: Path) -> None:
    model = estimator(tmp_path).train(inputs(epochs=2, batch=4, shuffle=True))
    assert model.get_variable_value("global_step") == 4


def test_a_dataset_and_its_labels_are_inputs_and_partial_functions_models(tmp_path: Path) -> None:
    def input_fn(params: Any, mode: str) -> Any:
        assert params == {} and mode in ("train", "eval")
        return tf.data.Dataset.from_tensor_slices(({"x": X}, Y)).repeat(2).batch(8)

    model = tf.estimator.Estimator(functools.partial(model_fn, params={"rate": 0.1}), str(tmp_path))
    model.train(input_fn)
    assert model.evaluate(input_fn, steps=1)["global_step"] == 2


def test_hooks_and_listeners_are_called(tmp_path: Path) -> None:
    class Counter(tf.train.SessionRunHook):
        runs = 0

        def after_run(self, run_context: Any, run_values: Any) -> None:
            self.runs += 1

    class Saved(tf.train.CheckpointSaverListener):
        def __init__(self) -> None:
            self.steps: list[int] = []

        def after_save(self, session: Any, global_step_value: int) -> None:
            self.steps.append(int(global_step_value))

    counter, saved = Counter(), Saved()
    config = tf.estimator.RunConfig(save_checkpoints_steps=3, keep_checkpoint_max=2)
    model = estimator(tmp_path, config=config)
    model.train(inputs(), steps=7, hooks=[counter], saving_listeners=[saved])
    assert counter.runs == 7 and saved.steps == [0, 3, 6, 7]
    assert len(glob.glob(str(tmp_path / "model.ckpt-*.index"))) == 2


def test_an_exported_model_serves(tmp_path: Path) -> None:
    model = estimator(tmp_path / "model").train(inputs(), steps=60)
    receive = tf.estimator.export.build_raw_serving_input_receiver_fn({"x": tf.placeholder(tf.float32, [None, 1])})
    extra = tmp_path / "notes.txt"
    extra.write_text("hello")
    path = model.export_saved_model(str(tmp_path / "export"), receive, assets_extra={"notes.txt": str(extra)})
    assert isinstance(path, bytes) and os.path.basename(path).isdigit()
    assert (Path(os.fsdecode(path)) / "assets.extra" / "notes.txt").read_text() == "hello"
    with tf.Graph().as_default(), tf.Session() as session:
        signature = tf.saved_model.load(session, ["serve"], path).signature_def["serving_default"]
        value = session.run(signature.outputs["y"].name, {signature.inputs["x"].name: [[2.0]]})
    np.testing.assert_allclose(value, [[7.0]], atol=1e-2)
    with pytest.raises(ValueError, match="trained model"):
        estimator(tmp_path / "none").export_saved_model(str(tmp_path / "e"), receive)


def test_all_modes_are_exported_together(tmp_path: Path) -> None:
    model = estimator(tmp_path / "model").train(inputs(), steps=1)
    x = tf.placeholder(tf.float32, [None, 1])
    supervised = tf.estimator.export.build_raw_supervised_input_receiver_fn(
        {"x": x}, tf.placeholder(tf.float32, [None, 1])
    )
    serving = tf.estimator.export.build_raw_serving_input_receiver_fn({"x": x})
    path = model.experimental_export_all_saved_models(
        str(tmp_path / "export"), {"train": supervised, "eval": supervised, "infer": serving}
    )
    with tf.Graph().as_default(), tf.Session() as session:
        signature = tf.saved_model.load(session, ["eval"], path).signature_def["eval"]
        assert "metrics/mae/value" in signature.outputs and set(signature.inputs) == {"x", "label"}


def test_warm_start(tmp_path: Path) -> None:
    estimator(tmp_path / "first").train(inputs(), steps=60)
    settings = tf.estimator.WarmStartSettings(str(tmp_path / "first"), vars_to_warm_start="w")
    second = estimator(tmp_path / "second", warm_start_from=settings).train(inputs(), steps=1)
    np.testing.assert_allclose(second.get_variable_value("w"), [[3]], atol=1e-2)
    np.testing.assert_allclose(second.get_variable_value("b"), [1], atol=0.1)  # One step from zero.
    with pytest.raises(ValueError, match="ckpt_to_initialize_from"):
        tf.estimator.WarmStartSettings("")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "train", "loss": 1.0}, "train_op"),
        ({"mode": "eval"}, "loss"),
        ({"mode": "infer"}, "predictions"),
        ({"mode": "nonsense"}, "mode"),
        ({"mode": "eval", "loss": [1.0, 2.0]}, "scalar"),
    ],
)
def test_specs_that_miss_something_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tf.estimator.EstimatorSpec(**arguments)


def test_specs_of_wrong_types_are_refused() -> None:
    with pytest.raises(TypeError, match="tuples"):
        tf.estimator.EstimatorSpec("eval", loss=1.0, eval_metric_ops={"a": 1})
    with pytest.raises(TypeError, match="Tensor"):
        tf.estimator.EstimatorSpec("infer", predictions={"a": 1})
    with pytest.raises(TypeError, match="SessionRunHook"):
        tf.estimator.EstimatorSpec("eval", loss=1.0, evaluation_hooks=[1])


def test_wrong_functions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="features"):
        tf.estimator.Estimator(lambda x: None)
    with pytest.raises(ValueError, match="params"):
        tf.estimator.Estimator(lambda features: None, params={"a": 1})
    with pytest.raises(ValueError, match="EstimatorSpec"):
        tf.estimator.Estimator(lambda features, labels: 3, str(tmp_path)).train(inputs(), steps=1)
    with pytest.raises(ValueError, match="trained model"):
        estimator(tmp_path / "empty").evaluate(inputs(1))


def test_input_functions_of_frames_and_their_errors() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, 2, 3], "s": ["x", "y", "z"]})
    features, labels = tf.estimator.inputs.pandas_input_fn(frame, pandas.Series([7, 8, 9]), 2, 1, shuffle=False)()
    with tf.train.MonitoredSession() as session:
        first = session.run((features, labels))
    assert first[0]["a"].tolist() == [1, 2] and first[0]["s"].tolist() == [b"x", b"y"] and first[1].tolist() == [7, 8]


def test_input_functions_check_their_arguments() -> None:
    make = tf.estimator.inputs.numpy_input_fn
    with pytest.raises(ValueError, match="shuffle"):
        make({"x": X})
    with pytest.raises(ValueError, match="mismatched"):
        make({"x": X}, Y[:3], shuffle=False)
    with pytest.raises(TypeError, match="array"):
        make([1, 2], shuffle=False)
