"""From feeds, fetches and targets to the step graph that all later passes start from."""

from __future__ import annotations

from collections.abc import Sequence

from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.variable_values import fed_handle
from thalweg.passes.fed_variables import lower_fed_variables
from thalweg.passes.inline_functions import Library, inline_functions
from thalweg.passes.prune import prune
from thalweg.passes.references import lower_references
from thalweg.passes.step_graph import StepGraph


def prepared_step(
    library: Library,
    feeds: Sequence[Tensor],
    fetches: Sequence[Tensor],
    targets: Sequence[Operation],
    inline: bool = True,
) -> StepGraph:
    """The pruned step, without references, and without the calls that can be inlined.

    Args:
        library: The functions of the graph.
        feeds: Tensors that the caller gives values for.
        fetches: Tensors to return.
        targets: Operations to run for their effect.
        inline: Whether bodies of functions take the place of calls.

    Raises:
        errors.OpError: If a function does not exist, or an update would change a value that is fed.
    """
    step = inline_functions(prune(feeds, fetches, targets), library, inline)
    if any(fed_handle(tensor) is not None for tensor in feeds):
        step = lower_fed_variables(step)
    return lower_references(step)
