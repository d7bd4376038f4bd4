"""Gradients of ops whose value can be written out in plain ops: the written-out form is differentiated instead.

Used where a rule of its own would be long and rarely needed, such as the gradient of a gradient. gradients() itself is
in autodiff/, above the ops, and installs itself here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thalweg.graph.definitions.op_registry import gradient
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor

PlainForm = Callable[[Operation], list[Tensor]]


def _gradients_not_installed(*args: Any, **kwargs: Any) -> list[Any]:
    raise NotImplementedError("autodiff/gradients.py has not been imported.")


_gradients: Callable[..., list[Any]] = _gradients_not_installed
_recorded: Callable[..., tuple[Any, Callable[..., list[Any]]]] = _gradients_not_installed  # type: ignore[assignment]


def set_gradients(function: Callable[..., list[Any]]) -> None:
    """Installs `gradients(ys, xs, grad_ys, stop_gradients=...)`."""
    global _gradients
    _gradients = function


def set_recorded(function: Callable[..., tuple[Any, Callable[..., list[Any]]]]) -> None:
    """Installs `recorded(build, xs)`; see there."""
    global _recorded
    _recorded = function


def recorded(build: Callable[[], Any], xs: list[Any], outer: bool = True) -> tuple[Any, Callable[..., list[Any]]]:
    """What `build` computes of the xs, where ops run at once, and the function from its gradients to those of the xs.

    Args:
        build: Returns a list of tensors.
        xs: Tensors, which count as independent of each other.
        outer: Whether the tapes that are open see what `build` runs.
    """
    return _recorded(build, xs, outer)


def gradient_of_plain_form(*op_types: str, inputs: int | None = None) -> Callable[[PlainForm], PlainForm]:
    """Registers the gradient of ops by their plain form: plain ops that compute the same outputs.

    Args:
        *op_types: The ops.
        inputs: How many inputs, from the first on, have a gradient; all if None.

    Returns:
        A decorator for a function that takes the Operation and returns its first outputs, as functions of its inputs.
    """

    def register(plain_form: PlainForm) -> PlainForm:
        @gradient(*op_types)
        def rule(op: Operation, *grads: Any) -> list[Any]:
            if op.graph._executes:
                independent = list({id(x): x for x in op.inputs[:inputs]}.values())
                _, backward = recorded(lambda: plain_form(op), independent)
                given = {id(x): grad for x, grad in zip(independent, backward(*grads), strict=True)}
                return [given.pop(id(x), None) for x in op.inputs]
            results = plain_form(op)
            pairs = [(y, grad) for y, grad in zip(results, grads, strict=False) if grad is not None]
            if not pairs:
                return [None] * len(op.inputs)
            # A tensor that is several inputs gets its whole gradient at the first of them.
            first = {x.ref(): i for i, x in reversed(list(enumerate(op.inputs[:inputs])))}
            xs = [op.inputs[i] for i in first.values()]
            # The inputs count as independent, though one may have been computed from another.
            found = _gradients([y for y, _ in pairs], xs, [grad for _, grad in pairs], stop_gradients=xs)
            by_input = dict(zip(first.values(), found, strict=True))
            return [by_input.get(i) for i in range(len(op.inputs))]

        return plain_form

    return register
