"""The moving averages of batch normalization."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.default_graph import colocate_with, name_scope
from thalweg.layers.branching import choose, known_choice
from thalweg.ops.array.constants import constant


def momentum_if_training(momentum: float, training: Any) -> Any:
    """The momentum while training; 1 otherwise, so that averages stay."""
    if known_choice(training):
        return momentum
    return choose(training, lambda: constant(momentum), lambda: constant(1.0))


def moving_average_update(variable: Any, value: Any, momentum: Any) -> Any:
    """The update that moves an average towards a new value."""
    with name_scope("AssignMovingAvg"), colocate_with(variable.op):
        rest = apply_one("Sub", 1.0, momentum, name="decay") if not isinstance(momentum, float) else 1.0 - momentum
        delta = apply_one("Mul", apply_one("Sub", variable.value(), value, name="sub"), rest, name="mul")
        return variable.assign_sub(delta)
