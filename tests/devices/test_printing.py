"""Print, Assert and numeric checks over several devices: whole lines, in the order that control edges ask for."""

from __future__ import annotations

import re
import threading
from typing import Any

import numpy as np
import pytest

import thalweg as tf

DEVICES = 4


def session() -> Any:
    return tf.Session(config=tf.ConfigProto(device_count={"CPU": DEVICES}))


def test_prints_ordered_by_control_edges_come_in_that_order(capfd: Any) -> None:
    previous: list[Any] = []
    x = tf.placeholder(tf.float32, [])
    for i in range(40):
        with tf.device(f"/cpu:{i * 3 % DEVICES}"), tf.control_dependencies(previous):
            previous = [tf.Print(x, [x * float(i)], f"line {i} ")]
    with session() as sess:
        for _ in range(5):
            sess.run(previous, {x: 1.0})
            lines = capfd.readouterr().err.splitlines()
            assert lines == [f"line {i} [{i}]" for i in range(40)]


def test_print_and_tf_print_share_one_order(capfd: Any) -> None:
    with tf.device("/cpu:0"):
        a = tf.Print(tf.constant(1.0), [tf.constant("first")])
    with tf.device("/cpu:1"), tf.control_dependencies([a]):
        b = tf.print("second", tf.constant([1, 2]))
    with tf.device("/cpu:2"), tf.control_dependencies([b]):
        c = tf.Print(tf.constant(2.0), [tf.constant("third")])
    with session() as sess:
        sess.run(c)
    assert capfd.readouterr().err.splitlines() == ["[first]", "second [1 2]", "[third]"]


def test_lines_of_devices_and_threads_do_not_mix(capfd: Any) -> None:
    printed = []
    for i in range(DEVICES):
        with tf.device(f"/cpu:{i}"):
            x = tf.constant(np.full([300], i), tf.int32)
            for _ in range(10):
                printed.append(tf.Print(x, [x], f"device {i}: ", summarize=-1))
    with session() as sess:
        threads = [threading.Thread(target=sess.run, args=(printed,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == DEVICES * 40
    for line in lines:
        found = re.fullmatch(r"device (\d): \[([\d ]+)\]", line)
        assert found is not None, line
        assert found[2].split() == [found[1]] * 300


def test_first_n_and_summarize_count_per_node(capfd: Any) -> None:
    x = tf.placeholder(tf.int32, [5])
    with tf.device("/cpu:1"):
        y = tf.Print(x, [x], "y ", first_n=2, summarize=2)
    with tf.device("/cpu:2"):
        z = tf.Print(y, [y, tf.size(y)], "z ", summarize=-1)
    with session() as sess:
        for i in range(4):
            sess.run(z, {x: np.arange(5) + i})
    lines = capfd.readouterr().err.splitlines()
    assert [line for line in lines if line.startswith("y")] == ["y [0 1...]", "y [1 2...]"]
    assert [line for line in lines if line.startswith("z")][3] == "z [3 4 5 6 7][5]"
    assert lines.index("y [0 1...]") < lines.index("z [0 1 2 3 4][5]")


def test_an_assertion_on_another_device_fails_the_step_and_stops_what_depends_on_it(capfd: Any) -> None:
    x = tf.placeholder(tf.float32, [3], name="x")
    with tf.device("/cpu:1"):
        check = tf.Assert(tf.reduce_all(x > 0), ["not positive:", x], summarize=3, name="check")
    with tf.device("/cpu:2"), tf.control_dependencies([check]):
        after = tf.Print(x, [x], "after ")
    with session() as sess:
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"assertion failed: \[not positive:\] \[1 -2 3\]"
        ) as e:
            sess.run(after, {x: [1, -2, 3]})
        assert e.value.op.name.startswith("check")
        assert capfd.readouterr().err == ""
        sess.run(after, {x: [1, 2, 3]})
        assert capfd.readouterr().err == "after [1 2 3]\n"


def test_numeric_checks_find_the_operation_on_any_device() -> None:
    x = tf.placeholder(tf.float32, [2])
    with tf.device("/cpu:1"):
        a = tf.log(x, name="logarithm")
    with tf.device("/cpu:2"):
        b = tf.multiply(a, 2.0, name="double")
    check = tf.add_check_numerics_ops()
    with session() as sess:
        assert np.isfinite(sess.run([b, check], {x: [1, 2]})[0]).all()
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"logarithm.*NaN"):
            sess.run([b, check], {x: [1, -2]})


def test_a_checked_tensor_is_checked_where_it_is() -> None:
    with tf.device("/cpu:3"):
        bad = tf.check_numerics(tf.constant([1.0]) / tf.placeholder_with_default([0.0], [1]), "division")
    with tf.device("/cpu:0"):
        total = tf.reduce_sum(bad)
    with session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match="division : Tensor had Inf"):
        sess.run(total)
