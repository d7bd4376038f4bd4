"""`thalweg model` freezes, optimizes and measures models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tensorboard.compat.proto.graph_pb2 import GraphDef

import thalweg as tf
from thalweg.cli.main import main


@pytest.fixture
def model(tmp_path: Path) -> tuple[str, np.ndarray, np.ndarray]:
    """The folder of a SavedModel, an input and the output for it."""
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    w = tf.get_variable("w", initializer=np.arange(12, dtype=np.float32).reshape(4, 3))
    scale = tf.exp(tf.constant(1.0, name="one"), name="scale")
    y = tf.identity(tf.matmul(tf.identity(x, name="passed"), w) * scale, name="y")
    folder = str(tmp_path / "saved")
    values = np.ones([2, 4], np.float32)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(session, folder, {"input": x}, {"output": y})
        return folder, values, session.run(y, {x: values})


def _run(path: str, values: np.ndarray) -> tuple[list[str], np.ndarray]:
    graph_def = GraphDef.FromString(Path(path).read_bytes())
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(graph_def, name="")
        return [node.op for node in graph_def.node], session.run("y:0", {"x:0": values})


def test_a_model_is_frozen_and_made_smaller(
    model: tuple[str, np.ndarray, np.ndarray], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, values, expected = model
    frozen, small = str(tmp_path / "frozen.pb"), str(tmp_path / "small.pb")
    assert main(["model", "freeze", folder, "--output", frozen]) == 0
    out = capsys.readouterr().out
    assert "feed x:0  (input)" in out
    assert "fetch y:0  (output)" in out
    types, found = _run(frozen, values)
    np.testing.assert_array_equal(found, expected)
    assert "VarHandleOp" not in types
    assert "Exp" in types
    assert main(["model", "optimize", folder, "--output", small]) == 0
    fewer, found = _run(small, values)
    np.testing.assert_array_equal(found, expected)
    assert "Exp" not in fewer
    assert len(fewer) < len(types)
    assert main(["model", "optimize", frozen, "--result", "y", "--output", small]) == 0  # From a GraphDef, too.
    np.testing.assert_array_equal(_run(small, values)[1], expected)


def test_a_model_is_measured(model: tuple[str, np.ndarray, np.ndarray], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", "benchmark", model[0], "--batch", "8", "--runs", "5"]) == 0
    assert "5 runs with batch 8: median" in capsys.readouterr().out


def test_signatures_are_listed(model: tuple[str, np.ndarray, np.ndarray], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", "signatures", model[0]]) == 0
    assert "signature serving_default" in capsys.readouterr().out


def test_a_checkpoint_with_its_graph_is_a_model(tmp_path: Path) -> None:
    x = tf.placeholder(tf.float32, [2], name="x")
    v = tf.get_variable("v", initializer=[1.0, 2.0])
    tf.multiply(x, v, name="y")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        prefix = tf.train.Saver().save(session, str(tmp_path / "model"))
    target = str(tmp_path / "frozen.pb")
    assert main(["model", "freeze", prefix, "--result", "y:0", "--output", target]) == 0
    np.testing.assert_array_equal(_run(target, np.array([3.0, 4.0]))[1], [3.0, 8.0])


def test_wrong_models_are_one_line(
    model: tuple[str, np.ndarray, np.ndarray], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = ["--output", str(tmp_path / "x.pb")]
    (tmp_path / "damaged.pb").write_bytes(b"\xff\xff\xff")
    for arguments, said in (
        (["freeze", str(tmp_path / "nothing"), *target], "neither the folder of a SavedModel"),
        (["freeze", str(tmp_path / "damaged.pb"), *target], "damaged.pb"),
        (["freeze", model[0], "--signature", "other", *target], "has no signature 'other'"),
        (["freeze", model[0], "--tags", "train", *target], "train"),
        (["freeze", model[0], "--result", "nothing", *target], "'nothing' refers to an Operation not in the graph"),
    ):
        assert main(["model", *arguments]) == 1
        error = capsys.readouterr().err
        assert said in error
