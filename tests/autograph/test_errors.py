"""Errors of converted code: in the names of the program, at its lines."""

from __future__ import annotations

import inspect
import traceback
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.autograph.running import converted, run


def line_of(function: Any, text: str) -> int:
    """The line of the first statement in a function that contains a text."""
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


def undefined_on_one_path(x: Any) -> Any:
    if x > 0:  # the condition
        y = x
    return y


def undefined_before_a_loop(x: Any) -> Any:
    for i in tf.range(x):  # the loop
        y = i
    return y


def other_type_in_a_branch(x: Any) -> Any:
    y = 1
    if x > 0:  # the condition
        y = 0.5
    else:
        y = x
    return y


def other_structure_in_a_branch(x: Any) -> Any:
    pair = (x, x)
    if x > 0:  # the condition
        pair = (x, x, x)
    return pair


def other_keys_in_a_branch(x: Any) -> Any:
    table = {"a": x}
    if x > 0:  # the condition
        table["b"] = x
    return table


def a_result_on_one_path(x: Any) -> Any:
    if x > 0:  # the condition
        return x


def other_type_in_a_loop(x: Any) -> Any:
    total = 0
    while x > 0:  # the loop
        total = tf.cast(x, tf.float32)
        x -= 1
    return total


def other_shape_in_a_loop(x: Any) -> Any:
    row = tf.zeros([1])
    while x > 0:  # the loop
        row = tf.concat([row, row], 0)
        x -= 1
    return row


def other_object_in_a_loop(x: Any) -> Any:
    thing = "text"
    other: Any = None
    while x > 0:  # the loop
        other = object()
        x -= 1
    return thing, other


def longer_list_in_a_loop(x: Any) -> Any:
    values = [x]
    while x > 0:  # the loop
        values = values + [x]  # noqa: RUF005
        x -= 1
    return values


def a_condition_that_is_a_vector(x: Any) -> Any:
    if tf.stack([x, x]) > 0:  # the condition
        return x
    return -x


def over_a_scalar(x: Any) -> Any:
    for i in x:  # the loop
        x += i
    return x


def match_of_a_tensor(x: Any) -> Any:
    match x:  # the match
        case 1:
            return x
    return -x


def a_list_of_two_types(x: Any) -> Any:
    values = []
    for i in tf.range(x):
        values.append(i)
        values.append(tf.cast(i, tf.float32))  # second
    return tf.stack(values)


CASES: list[tuple[Any, str, type[Exception], str]] = [
    (undefined_on_one_path, "the condition", ValueError, "'y' has no value if the condition is false, but is used"),
    (undefined_before_a_loop, "the loop", ValueError, "'y' is set in a loop and used after it"),
    (other_type_in_a_branch, "the condition", TypeError, "'y' is a tensor of type float32.*type int32 and shape"),
    (other_structure_in_a_branch, "the condition", TypeError, "'pair' is a tuple of 3 elements.*a tuple of 2"),
    (other_keys_in_a_branch, "the condition", TypeError, "'table' is a dict of 2 elements with keys .*'b'"),
    (a_result_on_one_path, "the condition", TypeError, "result of the function is a tensor.*Return a value on both"),
    (other_type_in_a_loop, "the loop", TypeError, r"'total' has type int32 before the loop.*tf.constant\(0, tf.float"),
    (other_shape_in_a_loop, "the loop", ValueError, r"'row' has shape \(1,\) before the loop.*shape_invariants"),
    (other_object_in_a_loop, "the loop", TypeError, "'other' is None before the loop and an object of class object"),
    (longer_list_in_a_loop, "the loop", TypeError, "'values' is a list of 1 elements before the loop.*append"),
    (a_condition_that_is_a_vector, "the condition", ValueError, "condition of `if` must be a scalar.*reduce_all"),
    (over_a_scalar, "the loop", TypeError, "Cannot iterate over a scalar tensor"),
    (match_of_a_tensor, "the match", TypeError, "use `if` and `elif`"),
    (a_list_of_two_types, "second", TypeError, "A list in a loop of the graph has elements of one type"),
]


@pytest.mark.parametrize("kind", [tf.autograph.to_graph, tf.function], ids=["graph", "function"])
@pytest.mark.parametrize(("function", "place", "error", "message"), CASES, ids=lambda v: getattr(v, "__name__", None))
def test_an_error_has_the_names_and_lines_of_the_program(
    function: Any, place: str, error: type[Exception], message: str, kind: Any
) -> None:
    with pytest.raises(error, match=message) as caught:
        kind(function)(tf.placeholder(tf.int32, []))
    frames = [frame for frame in traceback.extract_tb(caught.value.__traceback__) if frame.filename == __file__]
    assert (frames[-1].name, frames[-1].lineno) == (function.__name__, line_of(function, place))
    assert "ag__" not in str(caught.value)


def test_a_traceback_has_no_frames_of_autograph() -> None:
    def inner(x: Any) -> Any:
        while x > 0:
            if x > 1:
                x = tf.matmul(x, x)  # fails
            x -= 1
        return x

    def outer(x: Any) -> Any:
        return inner(x)

    with pytest.raises(ValueError, match="rank") as caught:
        tf.autograph.to_graph(outer)(tf.constant(1))
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert not [frame for frame in frames if "thalweg/autograph/" in frame.filename]
    own = [(frame.name, frame.lineno) for frame in frames if frame.filename == __file__]
    assert own[-1] == ("inner", line_of(inner, "fails"))
    assert ("outer", line_of(outer, "return inner")) in own


def test_an_error_of_a_step_names_the_line_that_made_the_operation() -> None:
    def work(x: Any) -> Any:
        for _ in tf.range(3):
            if x[0] > 0:
                x = tf.debugging.check_numerics(x / 0.0, "bad")  # fails
        return x

    with pytest.raises(tf.errors.InvalidArgumentError, match=f"test_errors.py:{line_of(work, 'fails')}, in"):
        converted(work, np.array([1.0, 2.0], np.float32))


def test_numbers_that_became_tensors_are_explained() -> None:
    def work(n: Any) -> Any:
        total = 0
        for _ in tf.range(n):
            total = total + 0.5
        return total

    with pytest.raises(TypeError) as caught:
        tf.autograph.to_graph(work)(tf.constant(3))
    assert "'total' (0 before the loop) is a tensor of type int32" in caught.value.__notes__[0]


def test_an_exception_of_the_program_leaves_its_variables_as_they_were() -> None:
    table = {"a": 1}

    def work(x: Any) -> Any:
        if x > 0:
            table["a"] = 5
            raise KeyError("stop")
        return x

    with pytest.raises(KeyError, match="stop"):
        tf.autograph.to_graph(work)(tf.constant(1))
    assert table == {"a": 1}


def test_a_variable_without_a_value_is_pythons_error() -> None:
    def work(x: Any, flag: bool) -> Any:
        if flag:
            y = x
        return y

    with pytest.raises(NameError, match="'y'"):
        tf.autograph.to_graph(work)(tf.constant(1), False)


def test_a_loop_that_never_leaves_python_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    import itertools

    from thalweg.autograph import operators

    monkeypatch.setattr(operators, "_MOST_UNROLLED", 20)

    def work(x: Any) -> Any:
        for i in itertools.count():
            if x > i:
                break
        return x

    with pytest.raises(ValueError, match=r"use tf\.range"):
        tf.autograph.to_graph(work)(tf.constant(1))


def test_a_plain_program_is_not_hurt_by_a_name_that_conversion_uses() -> None:
    def work(x: Any) -> Any:
        ag = 1
        ag_body = 2
        if x > 0:
            ag_body = 3
        return x * ag + ag_body

    assert run(tf.autograph.to_graph(work)(tf.constant(1))) == 4
