"""Runs functions converted and as they are, to compare; defines functions from text whose source can be found."""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Callable
from typing import Any

import numpy as np

import thalweg as tf

_numbers = itertools.count()


def defined(text: str, name: str = "f", **names: Any) -> Any:
    """The function `name` of a text, which AutoGraph can find as if it were in a file."""
    filename = f"<program {next(_numbers)}>"
    lines = text.splitlines(keepends=True)
    linecache.cache[filename] = (len(text), None, lines, filename)
    space = {"tf": tf, "np": np, **names}
    exec(compile(text, filename, "exec"), space)
    return space[name]


def run(value: Any, feeds: Any = None) -> Any:
    """The value of tensors."""
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(value, feeds)


def converted(function: Callable[..., Any], *args: Any) -> Any:
    """The value of a function of constants, called in its converted form."""
    return run(tf.autograph.to_graph(function)(*[tf.constant(each) for each in args]))


def both(function: Callable[..., Any], *args: Any) -> None:
    """Checks that a function of numbers gives in a graph, converted in two ways, what it gives in Python."""
    expected = function(*args)
    np.testing.assert_allclose(converted(function, *args), expected, rtol=1e-6)
    np.testing.assert_allclose(run(tf.function(function)(*[tf.constant(each) for each in args])), expected, rtol=1e-6)
