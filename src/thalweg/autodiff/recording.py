"""Which gradient tapes are open in a thread: they see every op that runs at once, if it reads something watched."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from thalweg.graph import dtypes
from thalweg.graph.definitions.op_registry import OpDef
from thalweg.graph.tensor import Tensor

Backward = Callable[..., Any]
"""From the gradients of the outputs of a call to those of its inputs, a list."""


class Recorder(Protocol):
    """A tape, or who else looks at ops that run."""

    def record(self, op_def: OpDef, inputs: Sequence[Tensor], attrs: dict[str, Any], outputs: list[Tensor]) -> None:
        """Keeps an op that has run, if it depends on what is watched."""

    def record_call(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], backward: Backward) -> None:
        """Keeps a call of a function with a gradient of its own, if it depends on what is watched."""


class _Tapes(threading.local):
    def __init__(self) -> None:
        self.open: tuple[Recorder, ...] = ()


tapes = _Tapes()


@contextmanager
def recorded_by(*recorders: Recorder) -> Iterator[None]:
    """A block whose ops only these tapes see; none, if there are none."""
    outer, tapes.open = tapes.open, recorders
    try:
        yield
    finally:
        tapes.open = outer


def trainable_variable(handle: Tensor) -> Any:
    """The trainable variable that an eager handle belongs to; None if it is none, or gone."""
    if handle.dtype is not dtypes.resource:
        return None
    reference = handle.__dict__.get("trainable_variable")
    return None if reference is None else reference()


class VariableWatcher:
    """Notes the trainable variables that are read."""

    def __init__(self) -> None:
        """Starts without any."""
        self.variables: dict[int, Any] = {}

    def record(self, op_def: OpDef, inputs: Sequence[Tensor], attrs: dict[str, Any], outputs: Sequence[Tensor]) -> None:
        """Looks at the handles among the inputs."""
        self.record_call(inputs, outputs, lambda *_: [])

    def record_call(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], backward: Backward) -> None:
        """Looks at the handles among the inputs."""
        for tensor in inputs:
            variable = trainable_variable(tensor)
            if variable is not None:
                self.variables[id(variable)] = variable
