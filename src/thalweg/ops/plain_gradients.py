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
_taped_gradients: Callable[..., list[Any]] = _gradients_not_installed


def set_gradients(function: Callable[..., list[Any]]) -> None:
    """Installs `gradients(ys, xs, grad_ys, stop_gradients=...)`."""
    global _gradients
    _gradients = function


def set_taped_gradients(function: Callable[..., list[Any]]) -> None:
    """Installs `gradients(build, xs, grad_ys)`, for where ops run at once: `build()` computes the ys of the xs."""
    global _taped_gradients
    _taped_gradients = function


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
                taped = _taped_gradients(lambda: plain_form(op), independent, grads)
                given = {id(x): grad for x, grad in zip(independent, taped, strict=True)}
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
