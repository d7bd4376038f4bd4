"""Side effects in converted code happen in the order of the program, in branches and loops as well."""

from __future__ import annotations

from typing import Any

import pytest

import thalweg as tf
from tests.autograph.running import run


def variable(value: Any = 0) -> Any:
    """A resource variable."""
    return tf.get_variable("v", initializer=tf.constant(value), use_resource=True)


def twice(build: Any, *args: Any) -> list[Any]:
    """What a function gives as a tf.function and in a plain graph, each with a variable of its own."""
    found = []
    for kind in (tf.function, tf.autograph.to_graph):
        with tf.Graph().as_default():
            v = variable()
            function = kind(build(v))
            tensors = [tf.placeholder_with_default(each, []) for each in args]
            found.append(run(function(*tensors)))
    return found


def test_an_update_in_a_branch_comes_before_a_later_read() -> None:
    def build(v: Any) -> Any:
        def work(x: Any) -> Any:
            if x > 0:
                v.assign_add(x)
            before = v.read_value()
            v.assign(100)
            return before, v.read_value()

        return work

    assert twice(build, 5) == [(5, 100), (5, 100)]
    assert twice(build, -5) == [(0, 100), (0, 100)]


def test_updates_around_and_in_a_loop() -> None:
    def build(v: Any) -> Any:
        def work(n: Any) -> Any:
            v.assign(1)
            for i in tf.range(n):
                v.assign(v * 2 + i)
                if i == 1:
                    v.assign_sub(1)
            v.assign_add(1000)
            return v.read_value()

        return work

    value = 1
    for i in range(4):
        value = value * 2 + i - (i == 1)
    assert twice(build, 4) == [value + 1000] * 2
    assert twice(build, 0) == [1001] * 2


def test_updates_in_nested_loops_and_branches() -> None:
    def build(v: Any) -> Any:
        def work(n: Any) -> Any:
            for i in tf.range(n):
                for j in tf.range(i):
                    if (i + j) % 2 == 0:
                        v.assign(v * 3 + j)
                    else:
                        v.assign(v - i)
            return v.read_value()

        return work

    value = 0
    for i in range(5):
        for j in range(i):
            value = value * 3 + j if (i + j) % 2 == 0 else value - i
    assert twice(build, 5) == [value] * 2


def test_a_loop_whose_condition_reads_what_its_body_updates() -> None:
    def build(v: Any) -> Any:
        def work(n: Any) -> Any:
            count = 0
            while v < n:
                v.assign_add(3)
                count += 1
            return count, v.read_value()

        return work

    assert twice(build, 10) == [(4, 12)] * 2


def test_a_loop_of_the_program_itself_keeps_the_order_in_a_function() -> None:
    v = variable()

    @tf.function(autograph=False)
    def work(n: Any) -> Any:
        def body(i: Any) -> Any:
            with tf.control_dependencies([v.assign(v * 2 + i)]):
                return i + 1

        v.assign(1)
        tf.while_loop(lambda i: i < n, body, [0])
        return v.read_value()

    assert run(work(tf.constant(3))) == ((1 * 2 + 0) * 2 + 1) * 2 + 2


def test_prints_of_branches_and_loops_are_in_order(capfd: pytest.CaptureFixture[str]) -> None:
    def work(n: Any) -> Any:
        print("start", n)
        for i in tf.range(n):
            print("turn", i)
            if i == 1:
                print("one")
            print("end of turn", i)
        print("end", n)
        return n

    expected = "start 2\nturn 0\nend of turn 0\nturn 1\none\nend of turn 1\nend 2\n"
    for kind in (tf.function, tf.autograph.to_graph):
        run(kind(work)(tf.constant(2)))
        assert capfd.readouterr().out == expected


def test_a_condition_that_prints_does_so_once_for_each_evaluation(capfd: pytest.CaptureFixture[str]) -> None:
    def going_on(i: Any) -> Any:
        print("asked", i)
        return i < 2

    def work(i: Any) -> Any:
        while going_on(i):
            i += 1
        return i

    assert run(tf.function(work)(tf.constant(0))) == 2
    assert capfd.readouterr().out == "asked 0\nasked 1\nasked 2\n"


def test_a_function_without_results_gives_an_operation_in_a_plain_graph() -> None:
    v = variable()

    def work(x: Any) -> None:
        if x > 0:
            v.assign(x)

    op = tf.autograph.to_graph(work)(tf.constant(7))
    with tf.Session() as session:
        session.run(v.initializer)
        session.run(op)
        assert session.run(v) == 7


def test_initial_values_of_variables_are_no_effects() -> None:
    def work(x: Any) -> Any:
        w = tf.get_variable("w", initializer=3)
        if x > 0:
            print("positive", x)
        return x * w

    y = tf.autograph.to_graph(work)(tf.constant(2))
    with tf.Session() as session:
        with pytest.raises(tf.errors.FailedPreconditionError):
            session.run(y)
        session.run(tf.global_variables_initializer())
        assert session.run(y) == 6


def test_a_failed_assert_in_a_loop_names_the_line_of_the_program() -> None:
    def work(n: Any) -> Any:
        total = 0
        for i in tf.range(n):
            assert i < 3, "too far"
            total += i
        return total

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"too far[\s\S]*test_effects.py"):
        run(tf.function(work)(tf.constant(5)))
