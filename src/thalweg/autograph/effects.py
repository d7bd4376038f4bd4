"""Side effects of converted functions in a plain graph: they happen before the results of the call are there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thalweg.control_flow.effects import order_effects
from thalweg.graph import nest
from thalweg.graph.apply import apply_one, apply_op
from thalweg.graph.collections import GraphKeys
from thalweg.graph.default_graph import control_dependencies, get_default_graph
from thalweg.graph.graph import Graph
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor


def in_order(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Calls a converted function; its prints, checks and updates happen in their order, before its results are there.

    Within the body of a function, within a loop or a branch, what is around it takes care of that.

    Returns:
        What the function returns; an operation that has its effects, if it returns nothing.
    """
    graph = get_default_graph()
    if graph.building_function or graph._get_control_flow_context() is not None:
        return function(*args, **kwargs)
    before = graph._last_id
    result = function(*args, **kwargs)
    made = graph.get_operations()[before:]
    if not any(op.op_def.effect.must_run for op in made):
        return result
    initializers = _initializers(graph)
    last = order_effects([op for op in made if op not in initializers])
    if not last:
        return result
    with control_dependencies(last):
        if result is None:
            return apply_op("NoOp")
        return nest.map_structure(lambda part: _after(graph, part), result, expand_composites=True)


def _initializers(graph: Graph) -> set[Operation]:
    """What gives variables their first values: that happens when the program asks for it."""
    variables = [each for key in GraphKeys._VARIABLE_COLLECTIONS for each in graph.get_collection(key)]
    return {v.initializer for v in variables if isinstance(getattr(v, "initializer", None), Operation)}


def _after(graph: Graph, value: Any) -> Any:
    if isinstance(value, Tensor) and not hasattr(type(value), "numpy") and value.graph is graph:
        return apply_one("Identity", value)
    return value
