"""The graph of Keras's symbolic tensors where ops run at once: it describes models, and nothing in it ever runs.

`Input` gives a placeholder of it; what layers and ops do with that goes there, too. Variables are the program's own. A
model repeats the calls between its inputs and outputs on values (`network.Model.call`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from thalweg.graph.default_graph import eager_graph
from thalweg.graph.func_graph import FuncGraph, outermost
from thalweg.keras.public_names import tf


class SymbolicGraph(FuncGraph):
    """A body of a function that is open as long as the program runs: ops on its tensors are added to it at any time."""

    _takes_values = True

    def __init__(self) -> None:
        """Starts empty."""
        super().__init__("keras_graph", eager_graph())

    def _refuse(self, name: str, inputs: Sequence[Any]) -> None:  # type: ignore[override]
        """Nothing: models are described piece by piece."""

    def captured_values(self) -> dict[Any, Any]:
        """From the placeholders of values that ops were given besides symbolic tensors to these values."""
        return {placeholder: value for value, placeholder in self.captures.items()}


_open: Final[list[SymbolicGraph]] = []


def runs_at_once() -> bool:
    """Whether the program runs ops at once, be it in the body of a function or of a model just now."""
    return outermost(tf.get_default_graph())._executes


def symbolic_graph() -> SymbolicGraph:
    """The graph that new models of an eager program are described in."""
    if not _open:
        _open.append(SymbolicGraph())
    return _open[0]


def forget_symbolic_graph() -> None:
    """Lets the next models begin another graph."""
    _open.clear()


def is_symbolic(tensor: Any) -> bool:
    """Whether a tensor describes a model of an eager program."""
    return type(tensor) is tf.Tensor and isinstance(tensor.graph, SymbolicGraph)
