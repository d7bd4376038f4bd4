"""tf.contrib.learn: models that are fitted to arrays, their metrics, monitors and experiments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import thalweg as tf

learn: Any = tf.contrib.learn
X = np.random.RandomState(6).rand(100, 4).astype(np.float32)
CLASSES = (X[:, 0] + X[:, 1] > 1).astype(np.int64)


@pytest.fixture(autouse=True)
def closed_writers() -> Iterator[None]:
    """An evaluation leaves its summary file open, with a thread."""
    yield
    tf.summary.FileWriterCache.clear()


def _squares(features: Any, labels: Any, mode: str, params: Any) -> Any:
    y = tf.contrib.layers.fully_connected(features, 1, None)[:, 0]
    loss = tf.losses.mean_squared_error(labels, y) if mode != learn.ModeKeys.INFER else None
    train_op = None
    if mode == learn.ModeKeys.TRAIN:
        step = tf.contrib.framework.get_global_step()
        train_op = tf.contrib.layers.optimize_loss(loss, step, params["rate"], "SGD")
    metrics = {"rmse": tf.metrics.root_mean_squared_error(labels, y)} if mode == learn.ModeKeys.EVAL else None
    return learn.ModelFnOps(mode, {"y": y}, loss, train_op, eval_metric_ops=metrics)


def test_a_linear_classifier_learns_what_tensorflow_learns(tmp_path: Path) -> None:
    columns = learn.infer_real_valued_columns_from_input(X)
    model = learn.LinearClassifier(columns, str(tmp_path))
    model.fit(X, CLASSES, steps=20, batch_size=100)
    # From TensorFlow 1.15.5.
    expected = [0.73275626, 0.5947441, -0.14592366, -0.12937625]
    np.testing.assert_allclose(model.get_variable_value("linear//weight").ravel(), expected, rtol=1e-4)
    found = model.evaluate(X, CLASSES)
    assert found["loss"] == pytest.approx(0.5912942, rel=1e-4)
    assert found["auc"] == pytest.approx(0.97490966, rel=1e-4)
    assert found["recall/positive_threshold_0.500000_mean"] == 1.0
    assert list(model.predict(X[:3])) == [1, 1, 1]
    np.testing.assert_allclose(model.predict_proba(X[:1], as_iterable=False), [[0.39162517, 0.60837483]], rtol=1e-4)


def test_a_centered_bias_learns_what_tensorflow_learns() -> None:
    columns = learn.infer_real_valued_columns_from_input(X)
    classes = np.digitize(X[:, 0] + X[:, 1], [0.8, 1.2])
    # From TensorFlow 1.15.5.
    for model, labels, name, bias, loss in (
        (learn.LinearClassifier(columns, n_classes=3, enable_centered_bias=True), classes, "multi_class_head",
         [-0.03416763, 0.12088439, -0.08925819], 0.9360155),
        (learn.LinearRegressor(columns, enable_centered_bias=True), X[:, 0] + 3, "regression_head",
         [0.72574318], 0.20594692),
    ):  # fmt: skip
        model.fit(X, labels, steps=20, batch_size=100)
        found = model.get_variable_value(f"linear/{name}/centered_bias_weight")
        np.testing.assert_allclose(found, bias, rtol=1e-4)
        assert model.evaluate(X, labels, steps=1)["loss"] == pytest.approx(loss, rel=1e-4)


def test_names_of_variables_are_those_of_that_time(tmp_path: Path) -> None:
    layers = tf.contrib.layers
    number, word = layers.real_valued_column("n"), layers.sparse_column_with_hash_bucket("w", 10)
    cross = layers.crossed_column([word, layers.bucketized_column(number, [0.5])], 20)

    def input_fn() -> Any:
        words = tf.SparseTensor([[i, 0] for i in range(4)], ["u", "v", "u", "v"], [4, 1])
        return {"n": tf.constant(X[:4, :1]), "w": words}, tf.constant(CLASSES[:4])

    model = learn.DNNLinearCombinedClassifier(
        str(tmp_path), linear_feature_columns=[number, word, cross], dnn_hidden_units=[5], dnn_dropout=0.1,
        dnn_feature_columns=[number, layers.embedding_column(word, 3)], gradient_clip_norm=1.0,
    )  # fmt: skip
    model.fit(input_fn=input_fn, steps=2)
    trained = {n for n in model.get_variable_names() if not n.rpartition("/")[2].startswith(("Ada", "Ftrl"))}
    assert trained == {
        "dnn/hiddenlayer_0/biases", "dnn/hiddenlayer_0/weights", "dnn/logits/biases", "dnn/logits/weights",
        "dnn/input_from_feature_columns/w_embedding/weights", "global_step", "linear/bias_weight", "linear/n/weight",
        "linear/n_bucketized_X_w/weights", "linear/w/weights",
    }  # fmt: skip
    assert len(list(model.predict(input_fn=input_fn))) == 4  # Constants come once.
    assert model.evaluate(input_fn=input_fn, steps=1)["global_step"] == 2


@pytest.mark.parametrize("n_classes", [2, 3])
def test_networks_fit_and_score(n_classes: int) -> None:
    columns = learn.infer_real_valued_columns_from_input(X)
    options = {"optimizer": lambda: tf.train.AdamOptimizer(0.02), "config": learn.RunConfig(tf_random_seed=1)}
    model = learn.DNNClassifier([10, 5], columns, n_classes=n_classes, **options).fit(X, CLASSES, steps=60)
    metrics = {
        "again": learn.MetricSpec(tf.contrib.metrics.streaming_accuracy, learn.PredictionKey.CLASSES),
        ("old", "classes"): tf.metrics.accuracy,
    }
    found = model.evaluate(X, CLASSES, metrics=metrics, batch_size=30)
    assert found["again"] == found["accuracy"] == found["old"] > 0.6
    rows = model.predict(X, outputs=["probabilities"], as_iterable=False)["probabilities"]
    np.testing.assert_allclose(rows.sum(axis=1), np.ones(100), rtol=1e-5)


def test_a_regressor_with_weights_ignores_what_weighs_nothing(tmp_path: Path) -> None:
    features = {"n": X[:, :1], "w": (CLASSES == 1).astype(np.float32)}
    column = [tf.contrib.layers.real_valued_column("n")]
    optimizer = tf.train.GradientDescentOptimizer(0.5)
    model = learn.LinearRegressor(column, str(tmp_path), weight_column_name="w", optimizer=optimizer)
    model.fit(features, np.where(CLASSES == 1, 2.0, -50.0), steps=200)
    np.testing.assert_allclose(model.predict_scores(features, as_iterable=False), np.full(100, 2.0), atol=0.1)


def test_a_model_that_uses_labels_in_every_mode(tmp_path: Path) -> None:
    def model_fn(features: Any, target: Any) -> Any:
        hidden = tf.contrib.layers.stack(features, tf.contrib.layers.fully_connected, [5])
        logits = tf.contrib.layers.fully_connected(hidden, 3, activation_fn=None)
        loss = tf.losses.softmax_cross_entropy(tf.one_hot(target, 3), logits)
        step = tf.contrib.framework.get_global_step()
        train_op = tf.contrib.layers.optimize_loss(loss, step, optimizer="Adagrad", learning_rate=0.1)
        return {"class": tf.argmax(logits, 1), "prob": tf.nn.softmax(logits)}, loss, train_op

    model = learn.SKCompat(learn.Estimator(model_fn, str(tmp_path))).fit(X.tolist(), CLASSES, steps=5)
    assert model.predict(X[:7], batch_size=3)["prob"].shape == (7, 3)
    assert model.score(X, CLASSES)["global_step"] == 5


def test_a_validation_monitor_counts_steps_from_one_and_stops_early(tmp_path: Path) -> None:
    metrics = {
        "rmse2": learn.MetricSpec(lambda predictions, labels: tf.reduce_mean((predictions - labels) ** 2) ** 0.5)
    }
    monitor = learn.monitors.ValidationMonitor(
        X, X.sum(1), every_n_steps=5, metrics=metrics, early_stopping_rounds=1, early_stopping_metric="loss",
        early_stopping_metric_minimize=False,
    )  # fmt: skip
    config = learn.RunConfig(save_checkpoints_steps=5)
    model = learn.Estimator(_squares, str(tmp_path), config, {"rate": 0.1})
    model.fit(X, X.sum(1), steps=50, monitors=[monitor, tf.train.StepCounterHook()])
    # The loss falls, and "better" means more here: the second evaluation ends the training.
    assert monitor.best_step == 5
    assert monitor.early_stopped
    assert monitor.best_metrics["rmse2"] == pytest.approx(monitor.best_metrics["rmse"], rel=1e-4)
    assert model.get_variable_value("global_step") == 10


def test_every_n_and_captured_values(tmp_path: Path) -> None:
    class Seen(learn.monitors.EveryN):  # type: ignore[misc]
        steps: list[int] = []  # noqa: RUF012

        def every_n_step_begin(self, step: int) -> list[Any]:
            return ["global_step:0"]

        def every_n_step_end(self, step: int, outputs: dict[str, Any]) -> bool:
            self.steps.append(step)
            assert set(outputs) == {"global_step:0"}
            return False

    captured = learn.monitors.CaptureVariable("fully_connected/biases:0", every_n=2)
    model = learn.Estimator(_squares, str(tmp_path), params={"rate": 0.1})
    stop = learn.monitors.StopAtStep(last_step=7)
    model.fit(X, X.sum(1), steps=50, monitors=[Seen(3, 2), captured, stop, learn.monitors.PrintTensor(["loss:0"][:0])])
    assert Seen.steps == [1, 2, 5]
    assert sorted(captured.values) == [1, 3, 5, 7]
    assert model.get_variable_value("global_step") == 7


def test_an_experiment_trains_evaluates_and_exports(tmp_path: Path) -> None:
    def data() -> Any:
        return tf.constant(X), tf.constant(X.sum(1))

    def serving() -> Any:
        features = tf.placeholder(tf.float32, [None, 4])
        return learn.InputFnOps(features, None, {"x": features})

    def experiment_fn(output_dir: str) -> Any:
        return learn.Experiment(
            learn.Estimator(_squares, output_dir, params={"rate": 0.1}), data, data, train_steps=6, eval_steps=1,
            train_steps_per_iteration=4, export_strategies=learn.make_export_strategy(serving, exports_to_keep=1),
        )  # fmt: skip

    result, exported = learn.learn_runner.run(experiment_fn, str(tmp_path))
    assert result["global_step"] == 6
    predict = tf.contrib.predictor.from_saved_model(tf.compat.as_str(exported[0]))
    assert predict({"x": X[:2]})["y"].shape == (2,)
    with pytest.raises(ValueError, match="non-existent"):
        learn.learn_runner.run(experiment_fn, str(tmp_path), schedule="nothing")


@pytest.mark.parametrize("by_step", [False, True])
def test_later_workers_of_an_experiment_begin_later(by_step: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    class Recorder:
        config = SimpleNamespace(task_id=2)
        hooks: Any = None

        def train(self, input_fn: Any, hooks: Any, max_steps: Any) -> None:
            self.hooks = hooks

    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    recorder = Recorder()
    learn.Experiment(recorder, None, None, delay_workers_by_global_step=by_step).train()
    assert waits == [0 if by_step else 10]
    assert [hook._wait_until_step for hook in recorder.hooks] == ([8788] if by_step else [])


def test_bad_calls(tmp_path: Path) -> None:
    model = learn.Estimator(_squares, str(tmp_path), params={"rate": 0.1})
    with pytest.raises(learn.NotFittedError):
        model.evaluate(X, CLASSES)
    with pytest.raises(ValueError, match="not both"):
        model.fit(X, CLASSES, input_fn=lambda: None)
    with pytest.raises(ValueError, match="must be provided"):
        model.fit()
    with pytest.raises(ValueError, match="both steps and max_steps"):
        model.fit(X, CLASSES, steps=1, max_steps=1)
    with pytest.raises(ValueError, match="features and labels"):
        learn.Estimator(lambda features, mode: None)
    with pytest.raises(ValueError, match="cannot hold"):
        learn.infer_real_valued_columns_from_input(np.array([["a"]]))
    with pytest.raises(ValueError, match="Missing loss"):
        learn.ModelFnOps("eval", {"y": 1}).check()
    with pytest.raises(ValueError, match="n_classes"):
        learn.LinearClassifier([tf.contrib.layers.real_valued_column("n")], n_classes=1)
