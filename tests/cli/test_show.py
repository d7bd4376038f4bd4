"""`thalweg show`: what it says of SavedModels, frozen graphs and MetaGraphs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thalweg as tf
from thalweg.cli.main import main


def model() -> None:
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    tf.nn.relu(tf.matmul(x, tf.constant(np.ones((3, 4), np.float32), name="w")), name="y")


def test_a_frozen_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model()
    path = tmp_path / "frozen.pb"
    path.write_bytes(tf.get_default_graph().as_graph_def().SerializeToString())
    assert main(["show", str(path)]) == 0
    text = capsys.readouterr().out
    assert "input x: float32 [?, 3]" in text and "output y:" in text
    assert "4 nodes" in text and "4 op types" in text and "constants: 12 numbers, 48 bytes" in text
    assert "all op types are supported" in text


def test_unsupported_op_types_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = tf.GraphDef()
    graph.node.add(name="a", op="OfAnotherWorld")
    function = graph.library.function.add()
    function.signature.name = "f"
    function.node_def.add(name="b", op="AlsoUnknown")
    graph.node.add(name="c", op="f")
    path = tmp_path / "g.pb"
    path.write_bytes(graph.SerializeToString())
    assert main(["show", str(path), "--ops"]) == 0
    assert "unsupported op types: AlsoUnknown, OfAnotherWorld\n" in capsys.readouterr().out


def test_a_saved_model_and_its_meta_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    y = tf.matmul(x, tf.get_variable("w", [2, 5]))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(session, str(tmp_path / "model"), {"in": x}, {"out": y})
        tf.train.Saver().save(session, str(tmp_path / "ckpt"))
    assert main(["show", str(tmp_path / "model")]) == 0
    text = capsys.readouterr().out
    assert "graph ['serve']" in text and "signature serving_default (tensorflow/serving/predict)" in text
    assert "input in: float32 [?, 2]  x:0" in text and "output out: float32 [?, 5]" in text
    assert "variables: 1 with 10 numbers" in text
    assert main(["show", str(tmp_path / "ckpt.meta")]) == 0
    assert "variables: 1 with 10 numbers" in capsys.readouterr().out


def test_what_is_no_model_is_one_line_of_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.pb").write_bytes(b"\xff\xfe no graph")
    for path in (tmp_path / "none.pb", tmp_path / "bad.pb", tmp_path):
        assert main(["show", str(path)]) == 1
        error = capsys.readouterr().err
        assert error.startswith("thalweg show: ") and error.count("\n") <= 3
