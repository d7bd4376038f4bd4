"""`thalweg check`: the names of TensorFlow that a program uses and that Thalweg lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from thalweg.as_tensorflow.census import missing_part, uses_in
from thalweg.cli.main import main

PROGRAM = """import tensorflow as tf
import tensorflow.contrib.slim as slim, numpy as np
from tensorflow.python.ops import array_ops as ao, no_such_ops
layers = tf.contrib.layers
flags = tf.app.flags
x = tf.nn.relu(tf.constant(1.0)).no_attribute_of_a_result
y = layers.conv2d(x, 1, 1) + layers.no_such_layer(x)
z = ao.reshape(ao.no_such_function(x), [np.prod([1])])
def f():
    return tf.train.AdamOptimizer.no_such_method, tf.train.AdamOptimizer.minimize
flags.DEFINE_integer("a", 1, "")
slim.nets.no_such_net.f(tf.contrib.no_such.g.h)
"""


def test_missing_names_are_listed_with_file_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    file = folder / "program.py"
    file.write_text(PROGRAM)
    (folder / "notes.txt").write_text("tf.no_such_thing")
    assert main(["check", str(folder)]) == 1
    *lines, total = capsys.readouterr().out.splitlines()
    assert [line.removeprefix(f"{file}:") for line in lines] == [
        "3: tensorflow.python.ops.no_such_ops: not in Thalweg",
        "7: tensorflow.contrib.layers.no_such_layer: not in Thalweg",
        "8: tensorflow.python.ops.array_ops.no_such_function: not in Thalweg",
        "10: tensorflow.train.AdamOptimizer.no_such_method: not in Thalweg",
        "12: tensorflow.contrib.no_such: not in Thalweg",
        "12: tensorflow.contrib.slim.nets.no_such_net: not in Thalweg",
    ]
    assert total.startswith("1 files, ") and total.endswith("6 of 6 names that Thalweg lacks")


def test_a_program_without_missing_names_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "program.py"
    file.write_text("import tensorflow.compat.v1 as tf\nprint(tf.Session().run(tf.math.add(1, 2)))\n")
    assert main(["check", "--all", str(file)]) == 0
    assert f"{file}:2: tensorflow.compat.v1.math.add" in capsys.readouterr().out


def test_what_is_no_program_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "old.py"
    file.write_text("import tensorflow\nprint 'Python 2'\n")
    assert main(["check", str(file)]) == 1
    assert f"{file}:2: not a Python 3 program" in capsys.readouterr().out
    assert main(["check", str(tmp_path / "missing.py")]) == 1


def test_aliases_and_chains_are_followed(tmp_path: Path) -> None:
    file = tmp_path / "p.py"
    file.write_text(PROGRAM)
    names = {use.name for use in uses_in(file)}
    assert {"tensorflow.nn.relu", "tensorflow.contrib.layers.conv2d", "tensorflow.app.flags.DEFINE_integer"} <= names
    assert missing_part("tensorflow.contrib.no_such.g.h") == "tensorflow.contrib.no_such"
    assert missing_part("tensorflow.nn.relu") is None
