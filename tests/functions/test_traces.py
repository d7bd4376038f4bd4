"""Which calls of a tf.function share a trace, and what a program is told about those that do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg.platform import logging


@pytest.fixture(autouse=True, params=["graph", "eager"])
def mode(request: pytest.FixtureRequest) -> Any:
    """Functions are traced in graphs and in eager programs."""
    with tf.eager() if request.param == "eager" else tf.Graph().as_default():
        yield request.param


def value(tensor: Any) -> Any:
    """The value of a tensor in either mode."""
    if tf.executing_eagerly():
        return tensor.numpy()
    with tf.Session() as session:
        return session.run(tensor)


def same(argument: Any) -> Any:
    """What tells arguments apart: any difference here needs a trace of its own."""
    return tf.constant(repr((type(argument), argument)) if not isinstance(argument, dict) else repr(sorted(argument)))


ALIKE = [
    [1, True, 1.0, np.float32(1.0), np.int64(1), 1 + 0j, "1"],
    [0.0, -0.0, float("nan"), False, None, ()],
    [[], (), {}, [()], [[]]],
    [(1, 2), [1, 2], ((1,), 2), (1, (2,))],
    [np.float64(0.0), np.float64(-0.0), 0.0],
]


@pytest.mark.parametrize("arguments", ALIKE, ids=["ones", "zeros", "empty", "nested", "scalars"])
def test_values_that_are_equal_or_flatten_alike_have_traces_of_their_own(arguments: list[Any]) -> None:
    function = tf.function(same, autograph=False)
    for _ in range(2):
        for argument in arguments:
            assert value(function(argument)).decode() == repr((type(argument), argument)) or isinstance(argument, dict)


def test_keys_of_dicts_and_names_of_arguments_count() -> None:
    last = tf.function(lambda d: d[sorted(d)[-1]] * 1.0)
    a, b = tf.constant(1.0), tf.constant(2.0)
    assert value(last({"a": a, "b": b})) == 2.0
    assert value(last({"b": b, "a": a})) == 2.0
    assert value(last({"b": b, "z": a})) == 1.0
    named = tf.function(lambda **kwargs: kwargs.get("x", a) * 1.0)
    assert [value(named(x=b)), value(named(y=b))] == [2.0, 1.0]


def test_an_argument_that_cannot_be_hashed_is_refused() -> None:
    size = tf.function(lambda s, x: x * float(len(s)))
    with pytest.raises(TypeError, match="frozenset"):
        size({1, 2}, tf.constant(1.0))
    assert value(size(frozenset({1, 2}), tf.constant(1.0))) == 2.0


def test_sparse_arguments_of_any_size_share_a_trace() -> None:
    traces = []

    @tf.function
    def total(s: Any) -> Any:
        traces.append(s)
        return tf.sparse_reduce_sum(s)

    for places in ([[0, 1]], [[0, 1], [1, 1]]):
        assert value(total(tf.SparseTensor(places, [2.0] * len(places), [2, 2]))) == 2.0 * len(places)
    assert len(traces) == 1


def test_relaxed_traces_keep_what_the_shapes_have_in_common() -> None:
    shapes: list[Any] = []

    @tf.function(reduce_retracing=True)
    def total(x: Any) -> Any:
        shapes.append(x.shape.as_list())
        return tf.reduce_sum(x)

    for rows in (2, 3, 4, 2, 9):
        assert value(total(tf.ones([rows, 5]))) == rows * 5
    assert shapes == [[2, 5], [None, 5]]
    assert value(total(tf.ones([2, 6]))) == 12
    assert shapes[2:] == [[None, None]]
    assert value(total(tf.ones([7]))) == 7


def test_arguments_behind_the_signature_keep_their_defaults() -> None:
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def scaled(x: Any, factor: float = 3.0, *, shift: float = 1.0) -> Any:
        return tf.reduce_sum(x) * factor + shift

    assert value(scaled([1.0, 1.0])) == 7.0
    assert value(scaled(x=tf.ones([1]))) == 4.0
    with pytest.raises(ValueError, match="default values"):
        scaled(tf.ones([2]), 4.0)


def test_many_traces_are_reported_with_the_argument_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(logging, "warn", lambda text, *args: told.append(text % args))

    @tf.function
    def scaled(x: Any, rate: float) -> Any:
        return x * rate

    x = tf.constant(1.0)
    for step in range(12):
        scaled(x, float(step))
    assert len(told) == 2
    assert "argument 'rate' was" in told[0] and "scaled" in told[0]
    for size in range(10):
        scaled(tf.ones([size]), 0.5)
    assert "argument 'x' was a float32 tensor" in told[2]


def test_few_traces_among_many_calls_are_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(logging, "warn", lambda text, *args: told.append(text % args))
    function = tf.function(lambda x: x * 2.0)
    for size in range(8):
        for _ in range(3):
            function(tf.ones([size]))
    assert not told
