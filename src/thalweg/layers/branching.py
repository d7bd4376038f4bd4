"""Choosing between training and inference: in Python where the choice is known, with tf.cond where it is a tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thalweg.control_flow.cond import cond
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor
from thalweg.state.variable import Variable


def known_choice(predicate: Any) -> bool | None:
    """The value of a predicate if it is known while the graph is built, else None.

    Raises:
        TypeError: If it is neither a bool, 0, 1, nor a tensor.
    """
    if isinstance(predicate, Variable):
        return None
    if isinstance(predicate, Tensor):
        value = constant_value(predicate)
        return None if value is None else bool(value)
    if predicate in (0, 1):
        return bool(predicate)
    raise TypeError(f"`pred` must be a Tensor, or a Python bool, or 1 or 0. Found instead: {predicate!r}")


def choose(predicate: Any, if_true: Callable[[], Any], if_false: Callable[[], Any], name: str | None = None) -> Any:
    """Calls one of two functions, or builds a tf.cond of both."""
    choice = known_choice(predicate)
    if choice is None:
        return cond(predicate, if_true, if_false, name=name)
    return if_true() if choice else if_false()
