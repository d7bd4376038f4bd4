"""Switching modes: `tf.enable_eager_execution`, the scope `tf.eager`, and what programs ask about the mode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from thalweg.graph.default_graph import eager_graph, enable_eager, executing_eagerly, set_executor
from thalweg.graph.default_stack import default_graph_scope, default_graphs
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.func_graph import FuncGraph, outermost
from thalweg.runtime.eager_queue import open_queue, set_asynchronous

SYNC = 0
ASYNC = 1
DEVICE_PLACEMENT_EXPLICIT = 0
DEVICE_PLACEMENT_WARN = 1
DEVICE_PLACEMENT_SILENT = 2
DEVICE_PLACEMENT_SILENT_FOR_INT32 = 3


def _new_executor() -> Any:
    from thalweg.runtime.eager_executor import new_executor  # Start-up time: graph programs need no executor.

    return new_executor()


set_executor(_new_executor)


@export("enable_eager_execution")
def enable_eager_execution(config: Any = None, device_policy: Any = None, execution_mode: Any = None) -> None:
    """Makes ops run at once, for the rest of the program and in all threads, outside of `with graph.as_default()`.

    Args:
        config: A ConfigProto: how many devices there are, and how many threads.
        device_policy: One of `tf.contrib.eager.DEVICE_PLACEMENT_*`. Values move between devices as needed, whatever it
            says.
        execution_mode: `tf.contrib.eager.SYNC` or `ASYNC`; see `set_execution_mode`.

    Raises:
        TypeError: If `config` is no ConfigProto.
        ValueError: If the program has begun to build a graph, or an argument has no meaning.

    Example:
        >>> tf.enable_eager_execution()  # doctest: +SKIP
        >>> tf.constant(1.0) + 2.0  # doctest: +SKIP
        <tf.Tensor: shape=(), dtype=float32, numpy=3.0>
    """
    if config is not None and not hasattr(config, "device_count"):
        raise TypeError(f"config must be a tf.ConfigProto, but got {config!r}")
    if device_policy not in (None, 0, 1, 2, 3):
        raise ValueError(
            f"device_policy must be one of None, tf.contrib.eager.DEVICE_PLACEMENT_*, got {device_policy!r}"
        )
    _check_mode(execution_mode)
    if config is not None:
        eager_graph().executor.configure(config)  # type: ignore[attr-defined]
    enable_eager()
    if execution_mode is not None:
        _set_mode(execution_mode)


def _check_mode(mode: Any) -> None:
    if mode not in (None, SYNC, ASYNC, "sync", "async"):
        raise ValueError(f"execution_mode should be None/SYNC/ASYNC, got {mode!r}")


@export("eager")
def eager() -> Any:
    """A block in which ops of this thread run at once, in a program that builds graphs elsewhere.

    Example:
        >>> with tf.eager():
        ...     x = tf.constant([1.0, 2.0])
        ...     print((x * x).numpy())
        [1. 4.]
    """
    return default_graph_scope(eager_graph())


@export("executing_eagerly_outside_functions")
def executing_eagerly_outside_functions() -> bool:
    """Whether ops run at once outside of the functions that are being traced here."""
    stack = default_graphs.stack
    if stack and isinstance(stack[-1], FuncGraph):
        return outermost(stack[-1])._executes
    return executing_eagerly()


def in_eager_mode() -> bool:
    """The same as `tf.executing_eagerly`."""
    return executing_eagerly()


@contextmanager
def execution_mode(mode: Any) -> Iterator[None]:
    """A block in another execution mode; see `set_execution_mode`."""
    _check_mode(mode)
    outer = open_queue.queue is not None
    _set_mode(mode)
    try:
        yield
    finally:
        _set_mode(ASYNC if outer else SYNC)


def set_execution_mode(mode: Any) -> None:
    """Whether ops of this thread have run when their calls return (SYNC), or run in their turn on another (ASYNC).

    In asynchronous mode, looking at a value waits for it. The error of an op is raised by the op that is called next,
    or by who looks at a value that never came, until `tf.contrib.eager.async_clear_error`.

    Args:
        mode: `tf.contrib.eager.SYNC` or `ASYNC`; None is SYNC. Going back to SYNC waits for all ops.

    Example:
        >>> with tf.eager(), tf.contrib.eager.execution_mode(tf.contrib.eager.ASYNC):
        ...     x = tf.random_normal([500, 500])
        ...     y = tf.matmul(x, x)  # Returns before it has run.
        ...     print(y.numpy().shape)
        (500, 500)
    """
    _check_mode(mode)
    _set_mode(mode)


def _set_mode(mode: Any) -> None:
    if mode in (ASYNC, "async"):
        eager_graph()  # Connects the core.
    set_asynchronous(mode in (ASYNC, "async"))
