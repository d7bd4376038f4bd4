"""Factorizations of large matrices that end with their step, although LAPACK hears nothing once it is called."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from thalweg import errors

Array = np.ndarray[Any, Any]
Kernel = Callable[[list[Array], dict[str, Any]], Any]

# Work below this, in multiplications, is done at once: some hundredths of a second. LAPACK takes 5 to 30 times n^3.
_AT_ONCE = 3e7


class _Abandoned(Exception):
    """Ends a kernel whose step has ended."""


class _Thread(threading.Thread):
    """Runs a kernel until it is done or nobody wants the result."""

    def __init__(self, kernel: Kernel, inputs: list[Array], attrs: dict[str, Any]) -> None:
        super().__init__(name="thalweg-factorization", daemon=True)
        self.is_wanted = True
        self.done = threading.Event()
        self.result: Any = None
        self.exception: BaseException | None = None
        self._call = functools.partial(kernel, inputs, attrs)

    def run(self) -> None:
        """Keeps the result, or what the kernel has raised."""
        try:
            self.result = self._call()
        except BaseException as e:
            self.exception = e
        finally:
            del self._call
            self.done.set()


def ends_with_step(kernel: Kernel) -> Kernel:
    """Makes a kernel for matrices that ends with its step; large inputs are worked on in a thread of their own.

    What LAPACK is doing for an ended step goes on in that thread until it returns: at most one matrix, or a batch of
    small ones.

    Args:
        kernel: A function of inputs and attributes, the first input a batch of matrices.

    Returns:
        The kernel, to be registered with `looks_at_step`.
    """

    @functools.wraps(kernel)
    def watched(inputs: list[Array], attrs: dict[str, Any]) -> Any:
        if _work(inputs[0]) < _AT_ONCE:
            return kernel(inputs, attrs)
        from thalweg._native import core  # Start-up time: the core is loaded when first used.

        thread = _Thread(kernel, inputs, attrs)
        thread.start()
        try:
            while not thread.done.wait(0.01):
                if core.step_has_ended():
                    raise errors.CancelledError(None, None, "the step has ended")
        finally:
            thread.is_wanted = False
        if thread.exception is not None:
            raise thread.exception
        return thread.result

    return watched


def by_pieces(function: Callable[[Array], Any], x: Array) -> Any:
    """`function` of a batch of matrices, which gives an array or a tuple of them; part by part if the batch is large.

    Raises:
        _Abandoned: Between two parts, if this is the thread of a kernel whose step has ended.
    """
    if x.size == 0:
        return function(x)
    matrices = x.reshape(-1, *x.shape[-2:])
    count = max(1, int(_AT_ONCE * len(matrices) / max(_work(x), 1.0)))
    if len(matrices) <= count:
        return function(x)
    parts = []
    for begin in range(0, len(matrices), count):
        thread = threading.current_thread()
        if isinstance(thread, _Thread) and not thread.is_wanted:
            raise _Abandoned
        parts.append(function(matrices[begin : begin + count]))

    def joined(columns: tuple[Array, ...]) -> Array:
        whole = np.concatenate(columns)
        return whole.reshape(*x.shape[:-2], *whole.shape[1:])

    if isinstance(parts[0], tuple):
        return tuple(joined(columns) for columns in zip(*parts, strict=True))
    return joined(tuple(parts))


def _work(x: Array) -> float:
    return float(x.size) * min(x.shape[-2:]) if x.ndim >= 2 else 0.0
