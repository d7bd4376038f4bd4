"""`thalweg graph` summarizes and draws graphs."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import thalweg as tf
from thalweg.cli.main import main
from thalweg.profiler.graph_drawing import drawing_of


@pytest.fixture
def path(tmp_path: Path) -> str:
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    for name in ("first", "second"):
        x = tf.layers.dense(x, 4, tf.nn.relu, name=name)
    i = tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0])
    tf.add(tf.reduce_sum(x), tf.cast(i, tf.float32), name="result")
    tf.train.export_meta_graph(str(tmp_path / "model.meta"))
    return str(tmp_path / "model.meta")


def test_a_summary_counts_operations_and_variables(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", "summary", path, "--top", "3"]) == 0
    out = capsys.readouterr().out
    assert "4 variables with 40 elements" in out
    assert "input   x: float32 (?, 4)" in out
    assert "more types" in out


def test_a_picture_has_scopes_and_arrows(path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture, text = tmp_path / "graph.svg", tmp_path / "graph.dot"
    assert main(["graph", "draw", path, "--output", str(picture)]) == 0
    titles = [element.text or "" for element in ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}title")]
    assert any(title.startswith("first → second") for title in titles)
    assert main(["graph", "draw", path, "--output", str(text), "--depth", "2"]) == 0
    assert '"first/MatMul" -> "first/BiasAdd";' in text.read_text()
    capsys.readouterr()
    for wrong, said in ((["--output", "x.png"], "*.svg"), (["--output", str(picture), "--depth", "0"], "at least 1")):
        assert main(["graph", "draw", path, *wrong]) == 1
        assert said in capsys.readouterr().err


def test_boxes_are_below_what_they_read() -> None:
    x = tf.placeholder(tf.float32, [4], name="x")
    tf.identity(tf.exp(x, name="b"), name="a")
    drawing = drawing_of(tf.get_default_graph())
    assert [drawing.boxes[name].layer for name in ("x", "b", "a")] == [0, 1, 2]
