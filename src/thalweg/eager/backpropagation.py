"""What the core's backward walk (core/python/gradient_tape.cc) leaves to Python: gradient functions, and odd gradients.

The gradient functions are those of the graph: a recorded op looks like an Operation to them. What they call runs at
once, and so is seen by the tapes that are open around this one.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from thalweg.autodiff.aggregate import aggregate
from thalweg.autodiff.nodes import backpropagates
from thalweg.autodiff.recording import Backward, recorded_by, tapes, trainable_variable
from thalweg.autodiff.walk import gradient_of_operation
from thalweg.autodiff.zeros import dense, zeros_for
from thalweg.graph.definitions.op_registry import ZERO_GRADIENT, OpDef
from thalweg.graph.eager_operation import EagerOperation
from thalweg.graph.tensor import Tensor

if TYPE_CHECKING:
    from thalweg._native import core


def backpropagate(
    tape: core.Tape, targets: Sequence[Tensor], seeds: Sequence[Any], sources: Sequence[Tensor], keep: bool
) -> list[Any]:
    """The gradients of the sources; None where no target depends on one.

    Args:
        tape: What was recorded.
        targets: The tensors to differentiate.
        seeds: Their gradients; None to leave one out.
        sources: The tensors with respect to which to differentiate.
        keep: Whether what was recorded stays: if not, each entry goes when the walk has passed it, and its tensors.
    """
    found = tape.gradients(targets, seeds, sources, keep)
    return [zeros_for(x) if grad is ZERO_GRADIENT else grad for x, grad in zip(sources, found, strict=True)]


def _input_gradients(
    op_def: OpDef | None, attrs: Any, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...],
    backward: Backward | None, grads: tuple[Any, ...],
) -> Sequence[Any]:  # fmt: skip
    """The gradients of the inputs of an op, or of a call of a function with a gradient of its own."""
    if op_def is not None:
        given = {output: grad for output, grad in zip(outputs, grads, strict=True) if grad is not None}
        return gradient_of_operation(EagerOperation(op_def, inputs, attrs, outputs), given)
    assert backward is not None
    filled = [
        zeros_for(output) if grad is None and backpropagates(output) else grad
        for output, grad in zip(outputs, grads, strict=True)
    ]
    found: Sequence[Any] = backward(*filled)
    return found


def _traced(
    trace: core.GradientTrace, op_def: OpDef, attrs: Any, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...],
    grads: tuple[Any, ...],
) -> Sequence[Any]:  # fmt: skip
    with recorded_by(trace):
        return _input_gradients(op_def, attrs, inputs, outputs, None, grads)


@functools.cache
def _core() -> Any:
    """The core, which knows from then on what it leaves to this file."""
    from thalweg._native import core  # Start-up time: programs that build graphs may never open a tape.

    core.set_gradient_functions(
        input_gradients=_input_gradients,
        traced=_traced,
        aggregate=aggregate,
        zero=ZERO_GRADIENT,
        variable=trainable_variable,
        open_tapes=lambda: tapes.open,
        dense=dense,
    )
    return core


def new_tape(watches_variables: bool) -> core.Tape:
    """What a gradient tape keeps of the ops that run: nothing yet."""
    made: core.Tape = _core().Tape(watches_variables)
    return made
