"""tf.compat.v2: names, the order of parameters, and imports."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg.as_tensorflow import second_interface

v2: Any = tf.compat.v2


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def value(tensor: Any) -> Any:
    with tf.Session() as session:
        return session.run(tensor)


def test_each_function_of_the_table_exists_and_takes_its_parameters() -> None:
    lacking = {}
    for dotted, row in second_interface.TABLE.items():
        function: Any = v2
        original: Any = tf
        for part in dotted.split("."):
            function, original = getattr(function, part), getattr(original, part)
        taken = inspect.signature(original).parameters
        if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in taken.values()):
            continue
        names = [word.lstrip("!").partition("=")[0].rpartition(">")[2] for word in row.replace("|", "").split()]
        lacking[dotted] = set(names) - set(taken)
    assert not {dotted: names for dotted, names in lacking.items() if names}


def test_parameters_have_the_order_of_the_second_interface() -> None:
    x = np.array([[1.0, 2.0], [3.0, 0.0]], np.float32)
    assert value(v2.argmax(x, 1, tf.int32)).tolist() == [1, 0]
    assert value(v2.math.reduce_sum(x, 1, True)).tolist() == [[3.0], [3.0]]
    assert value(v2.nn.dropout(x, 0.0)).tolist() == x.tolist()
    assert value(v2.where([True, False], 1.0, x)).tolist() == [[1.0, 2.0], [1.0, 0.0]]
    assert value(v2.transpose(x, [1, 0], False, "t")).tolist() == x.T.tolist()
    assert value(v2.ones_like(input=x)).tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert value(v2.while_loop(lambda i: i < 3, lambda i: [i + 1], [0])) == [3]
    assert value(v2.math.in_top_k([1, 0], x, 1)).tolist() == [True, True]


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'dimension'"):
        v2.argmax([1.0], dimension=0)
    with pytest.raises(TypeError, match="multiple values for argument 'axis'"):
        v2.argmax([1.0], 0, axis=0)
    with pytest.raises(TypeError, match="at most 3"):
        v2.squeeze([1.0], 0, None, None)
    with pytest.raises(AttributeError, match=r"no attribute 'image\.extract_glimpse'"):
        _ = v2.image.extract_glimpse


def test_it_is_imported_by_its_names() -> None:
    assert importlib.import_module("thalweg.compat.v2") is v2
    assert importlib.import_module("thalweg.compat.v2.math") is v2.math
    assert v2.compat.v1 is tf and v2.compat.v2 is v2
    assert v2.Tensor is tf.Tensor and v2.float32 is tf.float32 and v2.losses is tf.keras.losses
