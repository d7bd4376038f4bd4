"""Fuses element-wise operations into one pass over memory: `sqrt(abs(x * a + b))` reads x once and writes once.

A node joins the group of its readers when all of them are in one group: so a group has one output, nothing outside of
it needs a value from inside, and no cycle can arise. The members must compute in float32, on one device, and have
operands of one shape, scalars, or rows and columns that are broadcast, as far as shapes are known before the step runs;
the kernel (core/kernels/fused_elementwise.cc) copes with shapes that turn out otherwise. Members have the shape of the
last one, or are scalars: nothing is computed again for each row. Results are those of the separate
operations, bit for bit: the same functions run, in one loop of machine code or over blocks that stay in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from thalweg.graph.dtypes import float32
from thalweg.graph.tensor_shape import TensorShape
from thalweg.passes.step_graph import Node, StepGraph, standing_for

_LARGEST_GROUP = 32
_SHORTEST_ROW = 64  # The kernel computes shorter rows op by op.


def fuse_elementwise(graph: StepGraph, operands_of: Callable[[str], int]) -> StepGraph:
    """Returns the step with trees of element-wise operations fused.

    Args:
        graph: The step.
        operands_of: How many operands an op that can be fused has; 0 for all others.
    """
    fusible = {name: node for name, node in graph.nodes.items() if _is_fusible(graph, node, operands_of)}
    if len(fusible) < 2:
        return graph
    groups = _groups(graph, fusible)
    if not groups:
        return graph
    fused = {last: _fuse(graph, last, members) for last, members in groups.items()}
    gone = {name for last, members in groups.items() for name in members if name != last}
    return graph.with_nodes({name: fused.get(name, node) for name, node in graph.nodes.items() if name not in gone})


def _is_fusible(graph: StepGraph, node: Node, operands_of: Callable[[str], int]) -> bool:
    if node.output_dtypes != (float32,) or any(dtype is not float32 for dtype in node.input_dtypes):
        return False
    if not node.inputs or operands_of(_op(node)) != len(node.inputs):
        return False
    return len(node.inputs) == 1 or _agree(graph.shape(node.inputs[0]), graph.shape(node.inputs[1]))


def _op(node: Node) -> str:
    return "AddV2" if node.op == "AddN" else node.op  # A sum of two; a longer one has more operands than a loop takes.


def _agree(a: TensorShape, b: TensorShape) -> bool:
    """Whether two shapes may be equal, or one a scalar's, or one a row or a column of the other."""
    return a.rank == 0 or b.rank == 0 or a.is_compatible_with(b) or _broadcasts_rows(a.dims_tuple, b.dims_tuple)


def _broadcasts_rows(a: Sequence[int | None] | None, b: Sequence[int | None] | None) -> bool:
    """Whether the result can be seen as a matrix of which both are the whole, a row or a column."""
    if a is None or b is None:
        return False
    rank = max(len(a), len(b))
    a, b = [1] * (rank - len(a)) + list(a), [1] * (rank - len(b)) + list(b)
    if any(x != y and 1 not in (x, y) and None not in (x, y) for x, y in zip(a, b, strict=True)):
        return False
    whole = [x if y in (1, x) or (y is None and x != 1) else y for x, y in zip(a, b, strict=True)]
    for first in range(rank - 1, 0, -1):
        columns = whole[first:]
        if None in columns or math.prod(columns) < _SHORTEST_ROW:  # type: ignore[arg-type]  # None was ruled out
            continue
        if all(
            _is_whole_or_one(dims[:first], whole[:first]) and _is_whole_or_one(dims[first:], columns) for dims in (a, b)
        ):
            return True
    return False


def _is_whole_or_one(dims: Sequence[int | None], whole: Sequence[int | None]) -> bool:
    return dims == whole or all(d == 1 for d in dims)


def _has_size_of(shape: TensorShape, last: TensorShape) -> bool:
    return shape.rank == 0 or shape.is_compatible_with(last)


def _groups(graph: StepGraph, fusible: dict[str, Node]) -> dict[str, list[str]]:
    """Groups of two and more nodes, by the name of their last."""
    named = set(graph.targets) | {name for name, _ in graph.fetches}
    readers: dict[str, list[str]] = {name: [] for name in fusible}
    for name, node in graph.nodes.items():
        named.update(node.controls)
        for source, _ in node.inputs:
            if source in readers:
                readers[source].append(name)
    last_of: dict[str, str] = {}
    sizes: dict[str, int] = {}
    for name in reversed(list(fusible)):
        node = fusible[name]
        lasts = {last_of.get(reader) for reader in readers[name]}
        last = lasts.pop() if len(lasts) == 1 else None
        joins = (
            last is not None
            and name not in named
            and sizes[last] < _LARGEST_GROUP
            and node.device == fusible[last].device
            and _has_size_of(graph.shape((name, 0)), graph.shape((last, 0)))
        )
        last_of[name] = last if joins and last is not None else name
        sizes[last_of[name]] = sizes.get(last_of[name], 0) + 1
    groups: dict[str, list[str]] = {}
    for name in fusible:  # in topological order
        groups.setdefault(last_of[name], []).append(name)
    return {last: members for last, members in groups.items() if len(members) > 1}


def _fuse(graph: StepGraph, last: str, members: list[str]) -> Node:
    inside = {name: i for i, name in enumerate(members)}
    inputs = list(dict.fromkeys(e for name in members for e in graph.nodes[name].inputs if e[0] not in inside))
    value = {edge: i for i, edge in enumerate(inputs)} | {(m, 0): len(inputs) + i for m, i in inside.items()}
    operands: list[int] = []
    for name in members:
        sources = [value[edge] for edge in graph.nodes[name].inputs]
        operands += [*sources, -1][:2]
    controls = dict.fromkeys(c for name in members for c in graph.nodes[name].controls)
    return graph.nodes[last]._replace(
        op="_FusedElementwise",
        attrs=standing_for(
            {"ops": [_op(graph.nodes[m]) for m in members], "operands": operands, "origins": members},
            [graph.nodes[m] for m in members],
        ),
        inputs=tuple(inputs),
        controls=tuple(controls),
        input_dtypes=(float32,) * len(inputs),
        output_dtypes=(float32,),
    )
