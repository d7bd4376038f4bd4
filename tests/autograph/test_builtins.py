"""Python's built-in functions of tensors."""

# ruff: noqa: B905, C416, C417, RUF015 (plain Python is what is tested)
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.autograph.running import converted, run

VECTOR = np.array([3, 1, 2], np.int32)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda v: len(v) + v[1], 4),
        (lambda v: max(v), 3),
        (lambda v: min(v), 1),
        (lambda v: max(v[0], v[1], 2), 3),
        (lambda v: min([v[0], v[1]]), 1),
        (lambda v: sum(v), 6),
        (lambda v: sum(v, 10), 16),
        (lambda v: sorted(v), [1, 2, 3]),
        (lambda v: sorted(v, reverse=True), [3, 2, 1]),
        (lambda v: any(v > 2), True),
        (lambda v: all(v > 2), False),
        (lambda v: any([v[0] > 5, v[1] > 5]), False),
        (lambda v: abs(-v), [3, 1, 2]),
        (lambda v: int(v[0] / 2), 1),
        (lambda v: float(v[0]) / 2.0, 1.5),
        (lambda v: bool(v[0]), True),
        (lambda v: 2 in v, True),
        (lambda v: 7 not in v, True),
        (lambda v: v[0] in (1, 2, 3), True),
        (lambda v: range(v[1], 9, v[2]), [1, 3, 5, 7]),
        (lambda v: range(v[0], 1), []),
        (lambda v: range(v[0], 0, -1), [3, 2, 1]),
        (lambda v: [each * 2 for each in v][0], 6),
        (lambda v: [10, 20, 30][v[1]], 20),
        (lambda v: reversed(v), [2, 1, 3]),
    ],
)
def test_a_function_of_a_vector(function: Any, expected: Any) -> None:
    np.testing.assert_allclose(converted(function, VECTOR), expected)


def test_the_length_of_an_unknown_dimension_is_a_tensor() -> None:
    x = tf.placeholder(tf.float32, [None])
    assert run(tf.autograph.to_graph(lambda v: len(v) + 1)(x), {x: [1.0, 2.0]}) == 3
    assert tf.autograph.to_graph(lambda v: len(v))(tf.zeros([4])) == 4


def test_enumerate_zip_map_and_reversed_in_loops() -> None:
    def work(v: Any) -> Any:
        a, b, c, d = 0, 0, 0, 0
        for i, each in enumerate(v, 5):
            a += i * each
        for x, y in zip(v, [1, 10, 100, 1000]):
            b += x * y
        for x, (i, y) in zip(range(v[0]), enumerate(v)):
            c += x * 100 + i * 10 + y
        for z in map(lambda u: u * 2 if u > 1 else u, v):
            d = d * 10 + z
        return a, b, c, d

    assert converted(work, VECTOR) == (3 * 5 + 6 + 2 * 7, 213, 336, 614)


def test_elements_that_python_cannot_know_are_refused_in_a_comprehension() -> None:
    def work(v: Any) -> Any:
        return [each for each in v]

    with pytest.raises(TypeError, match="write a `for` loop"):
        tf.autograph.to_graph(work)(tf.placeholder(tf.float32, [None]))


def test_print_is_tf_print(capfd: pytest.CaptureFixture[str]) -> None:
    def work(n: Any) -> Any:
        print("plain")
        for i in tf.range(n):
            if i % 2 == 0:
                print("even", i, sep=":")
        print("end")
        return n

    graph_function = tf.autograph.to_graph(work)(tf.constant(4))
    assert capfd.readouterr().out == "plain\nend\n"
    run(graph_function)
    assert capfd.readouterr().out == "even:0\neven:2\n"


def test_assert_is_tf_assert() -> None:
    def checked(x: Any) -> Any:
        assert x > 0, f"x is {'not positive'}"
        assert x < 100
        return x

    assert converted(checked, 5) == 5
    with pytest.raises(tf.errors.InvalidArgumentError, match="x is not positive"):
        converted(checked, -5)
    with pytest.raises(tf.errors.InvalidArgumentError, match="assert x < 100"):
        converted(checked, 500)


def test_equality_is_that_of_elements() -> None:
    def work(v: Any) -> Any:
        return v == 3, v != v, v == None, "a" == "a"  # noqa: E711

    same, differ, none, text = tf.autograph.to_graph(work)(tf.constant(VECTOR))
    assert run(same).tolist() == [True, False, False]
    assert not run(differ).any()
    assert (none, text) == (False, True)
