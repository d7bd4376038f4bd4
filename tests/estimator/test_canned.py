"""Canned estimators: they learn, have TensorFlow's names in their checkpoints, and export its signatures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf

RNG = np.random.default_rng(0)
X = RNG.normal(size=64).astype(np.float32)
COLOURS = np.array([[b"red", b"green", b"blue"][i] for i in RNG.integers(0, 3, 64)], object)
FEATURES = {"x": X, "colour": COLOURS}
LABELS = (X > 0).astype(np.int64)


def columns() -> tuple[Any, Any]:
    fc = tf.feature_column
    return fc.numeric_column("x"), fc.categorical_column_with_vocabulary_list("colour", ["red", "green", "blue"])


def batches(labels: Any = LABELS, epochs: int | None = None) -> Any:
    return tf.estimator.inputs.numpy_input_fn(FEATURES, labels, 16, epochs, shuffle=epochs is None)


BINARY = {"accuracy", "accuracy_baseline", "auc", "auc_precision_recall", "average_loss", "label/mean", "loss",
          "precision", "prediction/mean", "recall", "global_step"}  # fmt: skip


def test_linear_classifier(tmp_path: Path) -> None:
    number, colour = columns()
    model = tf.estimator.LinearClassifier([number, colour], str(tmp_path)).train(batches(), steps=60)
    weights = [f"linear/linear_model/{name}" for name in ("bias_weights", "colour/weights", "x/weights")]
    slots = [f"{name}/part_0/{slot}" for name in weights for slot in ("Ftrl", "Ftrl_1")]
    assert sorted(model.get_variable_names()) == sorted([*weights, *slots, "global_step"])
    results = model.evaluate(batches(epochs=1))
    assert set(results) == BINARY and results["accuracy"] > 0.9
    first = next(iter(model.predict(batches(epochs=1))))
    assert set(first) == {
        "logits", "logistic", "probabilities", "class_ids", "classes", "all_class_ids", "all_classes",
    }  # fmt: skip
    assert first["classes"][0] in (b"0", b"1") and first["all_classes"].tolist() == [b"0", b"1"]
    receive = tf.estimator.export.build_parsing_serving_input_receiver_fn(
        tf.feature_column.make_parse_example_spec([number, colour])
    )
    path = model.export_saved_model(str(tmp_path / "export"), receive)
    with tf.Graph().as_default(), tf.Session() as session:
        signatures = tf.saved_model.load(session, ["serve"], path).signature_def
        assert set(signatures) == {"serving_default", "classification", "regression", "predict"}
        example = tf.train.Example()
        example.features.feature["x"].float_list.value.append(5.0)
        example.features.feature["colour"].bytes_list.value.append(b"red")
        classify = signatures["serving_default"]
        scores = session.run(
            classify.outputs["scores"].name, {classify.inputs["inputs"].name: [example.SerializeToString()]}
        )
    assert scores[0, 1] > 0.9


def test_dnn_classifier_of_several_classes_with_strings_as_labels(tmp_path: Path) -> None:
    number, colour = columns()
    embedding = tf.feature_column.embedding_column(colour, 2)
    model = tf.estimator.DNNClassifier(
        [8, 4], [number, embedding], str(tmp_path), n_classes=3, label_vocabulary=["red", "green", "blue"],
        optimizer=lambda: tf.train.AdagradOptimizer(0.3), config=tf.estimator.RunConfig(tf_random_seed=3),
    )  # fmt: skip
    model.train(batches(COLOURS), steps=100)
    weights = [
        f"dnn/{name}/{part}" for name in ("hiddenlayer_0", "hiddenlayer_1", "logits") for part in ("bias", "kernel")
    ]
    weights.append("dnn/input_from_feature_columns/input_layer/colour_embedding/embedding_weights")
    expected = ["global_step", *weights, *(f"{name}/t_0/Adagrad" for name in weights)]
    assert sorted(model.get_variable_names()) == sorted(expected)
    results = model.evaluate(batches(COLOURS, 1))
    assert set(results) == {"accuracy", "average_loss", "loss", "global_step"} and results["accuracy"] > 0.9
    first = next(iter(model.predict(batches(None, 1))))
    assert first["classes"][0] == COLOURS[0]


def test_wide_and_deep(tmp_path: Path) -> None:
    number, colour = columns()
    model = tf.estimator.DNNLinearCombinedClassifier(
        str(tmp_path), linear_feature_columns=[colour], dnn_feature_columns=[number], dnn_hidden_units=[8]
    )
    model.train(batches(), steps=60)
    names = model.get_variable_names()
    assert {"dnn/hiddenlayer_0/kernel/Adagrad", "linear/linear_model/colour/weights/Ftrl_1"} <= set(names)
    results = model.evaluate(batches(epochs=1))
    assert results["accuracy"] > 0.9 and results["global_step"] == 60


@pytest.mark.parametrize("kind", ["DNNRegressor", "LinearRegressor", "DNNLinearCombinedRegressor", "BaselineRegressor"])
def test_regressors(kind: str, tmp_path: Path) -> None:
    number, colour = columns()
    arguments: dict[str, Any] = {
        "DNNRegressor": {"hidden_units": [8], "feature_columns": [number], "batch_norm": True, "dropout": 0.0},
        "LinearRegressor": {"feature_columns": [number, colour]},
        "DNNLinearCombinedRegressor": {"dnn_feature_columns": [number], "dnn_hidden_units": [4]},
        "BaselineRegressor": {},
    }[kind]
    config = tf.estimator.RunConfig(tf_random_seed=2)
    model = getattr(tf.estimator, kind)(model_dir=str(tmp_path), config=config, **arguments)
    target = 0.5 * X + 1
    results = model.train(batches(target), steps=100).evaluate(batches(target, 1))
    assert set(results) == {"average_loss", "label/mean", "loss", "prediction/mean", "global_step"}
    # A constant reaches 0.33. Batch normalization's averages move by a thousandth in each step, as in TensorFlow.
    assert results["average_loss"] < {"BaselineRegressor": 0.35, "DNNRegressor": 0.28}.get(kind, 0.2)
    assert set(next(iter(model.predict(batches(target, 1))))) == {"predictions"}


def test_weights_of_examples_count(tmp_path: Path) -> None:
    features = {"x": np.zeros(4, np.float32), "w": np.array([3, 1, 0, 0], np.float32)}
    labels = np.array([10.0, 2.0, 99.0, 99.0], np.float32)
    data = tf.estimator.inputs.numpy_input_fn(features, labels, 4, None, shuffle=False)
    model = tf.estimator.BaselineRegressor(
        str(tmp_path), weight_column="w", optimizer=lambda: tf.train.AdamOptimizer(0.5)
    )
    model.train(data, steps=150)
    np.testing.assert_allclose(model.get_variable_value("baseline/bias"), [8.0], atol=0.1)


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    number, _ = columns()
    with pytest.raises(ValueError, match="n_classes"):
        tf.estimator.DNNClassifier([4], [number], n_classes=1)
    with pytest.raises(ValueError, match="Unsupported optimizer"):
        tf.estimator.LinearClassifier([number], str(tmp_path), optimizer="Best").train(batches(), steps=1)
    with pytest.raises(ValueError, match="feature_columns"):
        tf.estimator.DNNLinearCombinedClassifier()
    with pytest.raises(ValueError, match="label_vocabulary"):
        tf.estimator.LinearClassifier([number], label_vocabulary=["only one"])
    with pytest.raises(tf.errors.InvalidArgumentError, match="Labels must"):
        tf.estimator.LinearClassifier([number], str(tmp_path / "b")).train(batches(LABELS + 5), steps=1)
