"""Assert, Print, tf.print and timestamps: their output, and its destination."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf


def _failure(data: Any, **kwargs: Any) -> str:
    with tf.Graph().as_default(), tf.Session() as session:
        check = tf.Assert(tf.placeholder_with_default(False, []), data, **kwargs)
        with pytest.raises(tf.errors.InvalidArgumentError) as error:
            session.run(check)
        return str(error.value.message)


def test_an_assertion_shows_its_data() -> None:
    array = np.arange(12).reshape(3, 4)
    assert _failure(["msg", np.arange(5), array, 1.5, ["x", "y"]]).startswith(
        "assertion failed: [msg] [0 1 2...] [[0 1 2...]...] [1.5] [x y]"
    )
    assert "[[0 1 2 3][4 5 6 7][8 9...]...]" in _failure([array], summarize=10)
    assert "[[0 1 2 3][4 5 6 7][8 9 10 11]]" in _failure([array], summarize=-1)
    values = np.array([1 / 3, 1e20, np.nan, 16777216.0], np.float32)
    assert "[0.333333343 1e+20 nan 16777216]" in _failure([values, np.zeros((0, 2))], summarize=9)


def test_a_true_assertion_passes_and_a_vector_is_refused() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(tf.Assert(True, ["x"])) is None
        with pytest.raises(tf.errors.InvalidArgumentError, match="scalar"):
            session.run(tf.Assert(tf.placeholder_with_default([True, False], None), ["x"]))


def test_print_passes_its_input_on_and_writes_to_stderr(capfd: Any) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        printed = tf.Print(tf.constant([1, 2]), [tf.constant([[1, 2], [3, 4]]), "a"], "Msg: ", first_n=2)
        for _ in range(3):
            assert session.run(printed).tolist() == [1, 2]
        grad = tf.gradients(tf.Print(tf.constant(2.0), []), [tf.constant(1.0)])
        assert grad == [None]
    assert capfd.readouterr().err == "Msg: [[1 2][3...]...][a]\n" * 2


def test_tf_print_formats_structures(capsys: Any) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        value = {"a": tf.constant(1.5), "b": [tf.constant("s"), 2]}
        session.run(tf.print("hi", tf.constant([1, 2]), value, sep="|", end="!\n"))
        session.run(tf.print("to {} out", (1, tf.constant(2)), output_stream=sys.stdout))
        session.run(tf.print(tf.constant("alone")))
        session.run(tf.print(tf.SparseTensor([[0, 1]], [1.0], [2, 2])))
    out, err = capsys.readouterr()
    assert out == "to {} out (1, 2)\n"
    assert err == (
        "hi|[1 2]|{'a': 1.5, 'b': [\"s\", 2]}!\nalone\nSparseTensor(indices=[[0 1]], values=[1], shape=[2 2])\n"
    )


def test_tf_print_writes_to_files_and_refuses_other_streams(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        op = tf.print(tf.constant(1), output_stream=f"file://{tmp_path}/out.txt")
        session.run(op)
        session.run(op)
        assert (tmp_path / "out.txt").read_text() == "1\n1\n"
        with pytest.raises(ValueError, match="nowhere"):
            tf.print("x", output_stream="nowhere")
        with pytest.raises(ValueError, match="foo"):
            tf.print("x", foo=1)


def test_timestamps_tell_the_time() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        stamp = tf.timestamp()
        before = time.time()
        first, second = session.run(stamp), session.run(stamp)
        assert before - 1 <= first <= second <= time.time() + 1


def test_check_numerics_ops_name_the_first_bad_tensor() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, name="x")
        tf.subtract(x, x, name="zero")
        check = tf.add_check_numerics_ops()
        session.run(check, {x: 1.0})
        with pytest.raises(tf.errors.InvalidArgumentError, match="x:0 : Tensor had Inf"):
            session.run(check, {x: np.inf})
