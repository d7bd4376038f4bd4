"""graph_editor.select and util: operations and tensors by name, by their neighbours, and by walks along edges."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export

_SPACE: Final = "contrib.graph_editor"
F = TypeVar("F", bound=Callable[..., Any])


def _public(module: str) -> Callable[[F], F]:
    """Exports a function at the top of the library and in one of its modules."""

    def exported(function: F) -> F:
        export(f"{_SPACE}.{function.__name__}", f"{_SPACE}.{module}.{function.__name__}")(function)
        return function

    return exported


@_public("util")
def is_iterable(obj: Any) -> bool:
    """Whether an object can be iterated over."""
    return isinstance(obj, Iterable) and not isinstance(obj, tf.Tensor)


def _listed(given: Any, kind: type, what: str, ignore_others: bool) -> list[Any]:
    if isinstance(given, tf.Graph):
        ops = given.get_operations()
        return ops if kind is tf.Operation else [tensor for op in ops for tensor in op.outputs]
    found = []
    for each in given if is_iterable(given) else [given]:
        if isinstance(each, kind):
            found.append(each)
        elif not ignore_others:
            raise TypeError(f"Expected a tf.{what}, got {each!r}.")
    return found


@_public("util")
def make_list_of_op(ops: Any, check_graph: bool = True, allow_graph: bool = True, ignore_ts: bool = False) -> list[Any]:
    """Operations as a list: one, several, a view, or all of a graph; tensors among them may be left out."""
    return _listed(getattr(ops, "ops", ops), tf.Operation, "Operation", ignore_ts)


@_public("util")
def make_list_of_t(ts: Any, check_graph: bool = True, allow_graph: bool = True, ignore_ops: bool = False) -> list[Any]:
    """Tensors as a list: one, several, or all of a graph; operations among them may be left out."""
    return _listed(ts, tf.Tensor, "Tensor", ignore_ops)


@_public("util")
def get_tensors(graph: Any) -> list[Any]:
    """All tensors of a graph."""
    return make_list_of_t(graph)


def _distinct(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


@_public("util")
def get_generating_ops(ts: Any) -> list[Any]:
    """The operations that compute some tensors."""
    return _distinct(tensor.op for tensor in make_list_of_t(ts))


@_public("util")
def get_consuming_ops(ts: Any) -> list[Any]:
    """The operations that read some tensors."""
    return _distinct(op for tensor in make_list_of_t(ts) for op in tensor.consumers())


@_public("select")
def filter_ts(ops: Any, positive_filter: Any = True) -> list[Any]:
    """The outputs of operations for which a function is true; all if it is True."""
    tensors = [tensor for op in make_list_of_op(ops) for tensor in op.outputs]
    return tensors if positive_filter is True else [tensor for tensor in tensors if positive_filter(tensor)]


@_public("select")
def filter_ts_from_regex(ops: Any, regex: Any) -> list[Any]:
    """The outputs of operations whose names hold a match of an expression."""
    return filter_ts(ops, lambda tensor: re.compile(regex).search(tensor.name) is not None)


@_public("select")
def filter_ops(ops: Any, positive_filter: Any = True) -> list[Any]:
    """The operations for which a function is true; all if it is True."""
    listed = make_list_of_op(ops)
    return listed if positive_filter is True else [op for op in listed if positive_filter(op)]


@_public("select")
def filter_ops_from_regex(ops: Any, regex: Any) -> list[Any]:
    """The operations whose names hold a match of an expression."""
    return filter_ops(ops, lambda op: re.compile(regex).search(op.name) is not None)


@_public("select")
def get_name_scope_ops(ops: Any, scope: str) -> list[Any]:
    """The operations of a name scope."""
    scope = scope.rstrip("/")
    return filter_ops(ops, lambda op: not scope or op.name == scope or op.name.startswith(scope + "/"))


def _selected(
    args: Any, graph: Any, keep: Any, regex: Any, by_regex: Callable[..., Any], listed: Callable[[Any], list[Any]]
) -> list[Any]:
    found: list[Any] = []
    for each in args:
        if isinstance(each, str):
            if graph is None:
                raise ValueError("Use the keyword argument 'graph' to select by an expression.")
            found += by_regex(graph, each)
        else:
            found += listed(each)
    if regex is not None:
        found = [each for each in found if re.compile(regex).search(each.name)]
    return _distinct(each for each in found if keep is None or keep(each))


@_public("select")
def select_ops(*args: Any, graph: Any = None, positive_filter: Any = None, restrict_ops_regex: Any = None) -> list[Any]:
    """Operations given by themselves, in lists, or by expressions for names of a graph.

    Raises:
        ValueError: If an expression comes without a graph.
    """
    return _selected(
        args, graph, positive_filter, restrict_ops_regex, filter_ops_from_regex,
        lambda ops: make_list_of_op(ops, ignore_ts=True),
    )  # fmt: skip


@_public("select")
def select_ts(*args: Any, graph: Any = None, positive_filter: Any = None, restrict_ts_regex: Any = None) -> list[Any]:
    """Tensors given by themselves, in lists, or by expressions for names of a graph; see `select_ops`."""
    return _selected(
        args, graph, positive_filter, restrict_ts_regex, filter_ts_from_regex,
        lambda ts: make_list_of_t(ts, ignore_ops=True),
    )  # fmt: skip


def _walk(
    seeds: Any, inclusive: bool, within_ops: Any, stop_at_ts: Any, neighbours: Callable[[Any, set[Any]], Iterable[Any]]
) -> list[Any]:
    within = None if within_ops is None else set(make_list_of_op(within_ops))
    stops = set(make_list_of_t(stop_at_ts))
    first = _distinct(seeds)
    found = [op for op in first if within is None or op in within]
    seen = set(found)
    wave = found[:]
    while wave:
        op = wave.pop()
        for other in neighbours(op, stops):
            if other not in seen and (within is None or other in within):
                seen.add(other)
                found.append(other)
                wave.append(other)
    return found if inclusive else [op for op in found if op not in first]


def _seed_ops(seeds: Any, of_tensor: Callable[[Any], Iterable[Any]]) -> list[Any]:
    return [
        op
        for each in (seeds if is_iterable(seeds) else [seeds])
        for op in (of_tensor(each) if isinstance(each, tf.Tensor) else [each])
    ]


@_public("select")
def get_forward_walk_ops(
    seed_ops: Any, inclusive: bool = True, within_ops: Any = None, within_ops_fn: Any = None, stop_at_ts: Any = (),
    control_outputs: Any = None,
) -> list[Any]:  # fmt: skip
    """The operations that depend on some operations or tensors.

    Args:
        seed_ops: Where to begin; tensors stand for their readers.
        inclusive: Whether these belong to the result.
        within_ops: Only these are walked through.
        within_ops_fn: Only operations for which it is true are walked through.
        stop_at_ts: Tensors that are not followed.
        control_outputs: A ControlOutputs: its edges are followed, too.
    """

    def readers(op: Any, stops: set[Any]) -> Iterable[Any]:
        for tensor in op.outputs:
            if tensor not in stops:
                yield from filter(within_ops_fn, tensor.consumers())
        if control_outputs is not None:
            yield from filter(within_ops_fn, control_outputs.get(op))

    return _walk(_seed_ops(seed_ops, lambda t: t.consumers()), inclusive, within_ops, stop_at_ts, readers)


@_public("select")
def get_backward_walk_ops(
    seed_ops: Any, inclusive: bool = True, within_ops: Any = None, within_ops_fn: Any = None, stop_at_ts: Any = (),
    control_inputs: bool = False,
) -> list[Any]:  # fmt: skip
    """The operations that some operations or tensors depend on; see `get_forward_walk_ops`."""

    def sources(op: Any, stops: set[Any]) -> Iterable[Any]:
        yield from filter(within_ops_fn, [tensor.op for tensor in op.inputs if tensor not in stops])
        if control_inputs:
            yield from filter(within_ops_fn, op.control_inputs)

    return _walk(_seed_ops(seed_ops, lambda t: [t.op]), inclusive, within_ops, stop_at_ts, sources)


@_public("select")
def get_walks_intersection_ops(
    forward_seed_ops: Any, backward_seed_ops: Any, forward_inclusive: bool = True, backward_inclusive: bool = True,
    within_ops: Any = None, **_: Any,
) -> list[Any]:  # fmt: skip
    """The operations on the ways from some operations to others."""
    backward = set(get_backward_walk_ops(backward_seed_ops, backward_inclusive, within_ops))
    return [op for op in get_forward_walk_ops(forward_seed_ops, forward_inclusive, within_ops) if op in backward]


@_public("util")
class ControlOutputs:
    """The control edges of a graph, followed from an operation to those that wait for it."""

    def __init__(self, graph: Any) -> None:
        """Reads the edges of all operations."""
        self._outputs: dict[Any, list[Any]] = {}
        for op in graph.get_operations():
            for source in op.control_inputs:
                self._outputs.setdefault(source, []).append(op)

    def get(self, op: Any) -> list[Any]:
        """The operations that wait for one."""
        return self._outputs.get(op, [])

    def get_all(self) -> dict[Any, list[Any]]:
        """All of them by the operation that is waited for."""
        return self._outputs
