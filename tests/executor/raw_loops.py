"""Loops built by hand from the five control-flow ops, for tests of the executor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import thalweg as tf
from thalweg.graph.apply import apply


def raw_loop(
    initial: Sequence[Any],
    condition: Callable[..., Any],
    body: Callable[..., Sequence[Any]],
    frame: str = "frame",
    parallel_iterations: int = 10,
    invariants: Sequence[Any] = (),
) -> list[Any]:
    """Returns the Exits of a loop; `condition` and `body` get the loop variables and then the invariants."""
    options = {"frame_name": frame, "parallel_iterations": parallel_iterations}
    enters = [apply("Enter", tf.convert_to_tensor(value), **options) for value in initial]
    constants = [apply("Enter", tf.convert_to_tensor(value), is_constant=True, **options) for value in invariants]
    merges = [apply("Merge", [enter, enter])[0] for enter in enters]
    proceed = apply("LoopCond", condition(*merges, *constants))
    switches = [apply("Switch", merge, proceed) for merge in merges]
    values = body(*[apply("Identity", switch[1]) for switch in switches], *constants)
    for merge, value in zip(merges, values, strict=True):
        merge.op._update_input(1, apply("NextIteration", value))
    return [apply("Exit", switch[0]) for switch in switches]


def number(value: float, x: Any) -> Any:
    """A constant of the type of `x` that is there once per iteration: it waits for `x`."""
    with tf.control_dependencies([x]):
        return tf.constant(value, x.dtype)


def session(optimized: bool) -> tf.Session:
    """A session with or without graph passes: without them every loop runs in frames."""
    config = tf.ConfigProto()
    config.graph_options.optimizer_options.opt_level = 0 if optimized else -1
    return tf.Session(config=config)
