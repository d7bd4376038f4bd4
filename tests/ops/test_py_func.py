"""py_func: arguments and results of functions, and their exceptions as errors."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import thalweg as tf


def _run(func: Any, inp: Any, types: Any, **kwargs: Any) -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(tf.py_func(func, inp, types, **kwargs))


def test_arguments_are_arrays_and_scalars_are_numpy_scalars() -> None:
    seen: list[Any] = []
    _run(lambda *args: seen.extend(args), [[1.0, 2.0], 3, "text", ["a"]], [])
    assert isinstance(seen[0], np.ndarray) and seen[0].dtype == np.float32
    assert isinstance(seen[1], np.int32) and seen[2] == b"text" and seen[3].tolist() == [b"a"]


def test_results_are_one_tensor_or_a_list() -> None:
    assert _run(lambda x: x + 1, [np.float32(1)], tf.float32) == 2
    assert _run(lambda x: (x, x * 2), [3], [tf.int32, tf.int32]) == [3, 6]
    assert _run(lambda: "é", [], tf.string) == "é".encode()
    assert _run(lambda: np.array(["a", "bc\0"], object), [], tf.string).tolist() == [b"a", b"bc\0"]
    assert _run(lambda x: None, [1], []) is None


@pytest.mark.parametrize(
    ("func", "message"),
    [
        (lambda x: 1.5, "0-th value returned by .* is float64, but expects int64"),
        (lambda x: np.int32(1), "is int32, but expects int64"),
        (lambda x: [1, 2], "returns 2 values, but expects to see 1"),
        (lambda x: None, "NoneType"),
        (lambda x: "a", "is string, but expects int64"),
        (lambda x: np.array([object()]), "holds a object"),
    ],
)
def test_results_of_another_type_or_number_are_refused(func: Any, message: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        _run(func, [1], tf.int64)


@pytest.mark.parametrize(
    ("exception", "expected"),
    [
        (ValueError("boom"), tf.errors.InvalidArgumentError),
        (TypeError("boom"), tf.errors.InvalidArgumentError),
        (StopIteration("boom"), tf.errors.OutOfRangeError),
        (NotImplementedError("boom"), tf.errors.UnimplementedError),
        (MemoryError("boom"), tf.errors.ResourceExhaustedError),
        (KeyError("boom"), tf.errors.UnknownError),
        (IndexError("boom"), tf.errors.UnknownError),
        (tf.errors.NotFoundError(None, None, "boom"), tf.errors.NotFoundError),
    ],
)
def test_exceptions_become_errors_with_their_text(exception: Exception, expected: Any) -> None:
    def fail(x: Any) -> Any:
        raise exception

    with pytest.raises(expected, match="boom"):
        _run(fail, [1], tf.int64)


def test_stateful_functions_run_each_time_and_stateless_ones_may_be_merged() -> None:
    calls = []
    with tf.Graph().as_default(), tf.Session() as session:
        once = tf.py_func(lambda: calls.append(1) or np.int64(len(calls)), [], tf.int64)
        assert [session.run(once), session.run(once)] == [1, 2]
        assert tf.py_func(len, [[1]], tf.int64, stateful=False).op.type == "PyFuncStateless"


def test_a_function_lives_as_long_as_its_graph() -> None:
    class Callback:
        def __call__(self) -> Any:
            return np.int64(3)

    function = Callback()
    alive = weakref.ref(function)
    graph = tf.Graph()
    with graph.as_default(), tf.Session() as session:
        tensor = tf.py_func(function, [], tf.int64)
        del function
        gc.collect()
        assert session.run(tensor) == 3
    del graph, session, tensor
    gc.collect()
    assert alive() is None


def test_py_function_converts_its_results() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(tf.py_function(lambda x: x.numpy() * 1.5, [3], tf.float32)) == np.float32(4.5)
        assert session.run(tf.numpy_function(lambda x: x, [3], tf.int32)) == 3
    with pytest.raises(ValueError, match="callable"):
        tf.py_func(3, [], tf.int32)  # type: ignore[arg-type]


def test_the_gradient_of_a_py_function_differentiates_the_call_that_was_made() -> None:
    calls: list[Any] = []

    def f(a: Any, b: Any) -> Any:
        calls.append(float(a))
        return [a * a * b if a > 0 else -a, tf.cast(b, tf.int32)]

    x, z = tf.constant(3.0), tf.constant(2.0)
    y, n = tf.py_function(f, [x, z], [tf.float32, tf.int32])
    grads = tf.gradients(y * 2.0, [x, z])
    with tf.Session() as session:
        assert session.run([y, n, grads]) == [18.0, 2, [24.0, 18.0]]
        assert calls == [3.0]
        assert session.run(grads, {x: -1.0}) == [-2.0, 0.0]


def test_gradients_of_py_functions_in_loops() -> None:
    calls: list[Any] = []

    def squared(a: Any) -> Any:
        calls.append(a)
        return a * a

    def body(i: Any, v: Any) -> Any:
        result = tf.py_function(squared, [v], tf.float32)
        result.set_shape([])
        return i + 1, result

    x = tf.constant(1.5)
    _, y = tf.while_loop(lambda i, v: i < 3, body, [0, x])
    with tf.Session() as session:
        assert session.run([y, tf.gradients(y, x)[0]]) == [1.5**8, 8 * 1.5**7]
    assert len(calls) == 3
