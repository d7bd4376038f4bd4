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


def test_prints_in_a_loop_over_devices_come_in_the_order_of_the_iterations(capfd: Any) -> None:
    """Data and control edges of the loop cross all devices; iterations may overlap, prints may not."""

    def body(i: Any, x: Any) -> Any:
        for device in range(DEVICES):
            with tf.device(f"/cpu:{device}"):
                x = tf.Print(x + 1.0, [i, x], f"on {device} ")
        return i + 1, x

    _, x = tf.while_loop(lambda i, x: i < 6, body, [0, tf.placeholder_with_default(0.0, [])], parallel_iterations=4)
    with session() as sess:
        for _ in range(3):
            assert sess.run(x) == 6 * DEVICES
            lines = capfd.readouterr().err.splitlines()
            assert lines == [f"on {d} [{i}][{i * DEVICES + d}]" for i in range(6) for d in range(DEVICES)]


def test_prints_ordered_by_control_edges_alone_keep_their_order_within_an_iteration(capfd: Any) -> None:
    def body(i: Any, x: Any) -> Any:
        previous: list[Any] = [x]
        for device in (2, 0, 3, 1):
            with tf.device(f"/cpu:{device}"), tf.control_dependencies(previous):
                previous = [tf.print("on", device, "at", i)]
        with tf.control_dependencies(previous):
            return i + 1, tf.identity(x)

    _, x = tf.while_loop(lambda i, x: i < 5, body, [0, tf.placeholder_with_default(0.0, [])])
    with session() as sess:
        sess.run(x)
    assert capfd.readouterr().err.splitlines() == [f"on {d} at {i}" for i in range(5) for d in (2, 0, 3, 1)]


def test_an_assertion_in_a_loop_stops_the_iterations_after_it_on_all_devices(capfd: Any) -> None:
    def body(i: Any, x: Any) -> Any:
        with tf.device("/cpu:1"):
            check = tf.Assert(x < 3.0, ["too large:", x, "in iteration", i], name="check")
        with tf.device("/cpu:2"), tf.control_dependencies([check]):
            x = tf.Print(x, [i], "passed ")
        with tf.device("/cpu:3"):
            return i + 1, x + 1.0

    _, x = tf.while_loop(lambda i, x: i < 10, body, [0, tf.placeholder_with_default(0.0, [])])
    with session() as sess:
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[too large:\] \[3\] \[in iteration\] \[3\]"):
            sess.run(x)
    assert capfd.readouterr().err.splitlines() == [f"passed [{i}]" for i in range(3)]


def test_a_print_in_a_branch_that_is_not_taken_prints_nothing(capfd: Any) -> None:
    flag = tf.placeholder(tf.bool, [])

    def branch(name: str, device: int) -> Any:
        with tf.device(f"/cpu:{device}"):
            return tf.Print(tf.constant(1.0), [tf.constant(name)])

    y = tf.cond(flag, lambda: branch("taken", 1), lambda: branch("not taken", 2))
    with session() as sess:
        sess.run(y, {flag: True})
        assert capfd.readouterr().err == "[taken]\n"
        sess.run(y, {flag: False})
        assert capfd.readouterr().err == "[not taken]\n"


def test_numeric_checks_in_a_loop_over_devices_name_the_first_that_fails() -> None:
    def body(i: Any, x: Any) -> Any:
        with tf.device("/cpu:1"):
            x = tf.check_numerics(x - 1.0, "difference")
        with tf.device("/cpu:2"):
            return i + 1, tf.check_numerics(tf.log(x), "logarithm")

    x = tf.placeholder(tf.float32, [])
    _, y = tf.while_loop(lambda i, x: i < 4, body, [0, x])
    with session() as sess:
        with pytest.raises(tf.errors.InvalidArgumentError, match="logarithm : Tensor had"):
            sess.run(y, {x: 1.5})
        with pytest.raises(tf.errors.InvalidArgumentError, match="difference : Tensor had Inf"):
            sess.run(y, {x: np.inf})
