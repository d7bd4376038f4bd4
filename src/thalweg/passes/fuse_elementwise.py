"""Fuses element-wise operations into one pass over memory: `sqrt(abs(x * a + b))` reads x once and writes once.

A node joins the group of its readers when all of them are in one group: so a group has one output, nothing outside of
it needs a value from inside, and no cycle can arise. The members must compute in float32, or be ops that machine code
can be made for, all in lanes of 32 bits (float32, int32, float16, bfloat16, small integers) or all in lanes of 64 bits;
bool goes with both. They are on one device, and have
operands of one shape, scalars, or rows and columns that are broadcast, as far as shapes are known before the step runs;
the kernel (core/kernels/fused_elementwise.cc) copes with shapes that turn out otherwise. Members have the shape of the
last one, or are scalars: nothing is computed again for each row. Results are those of the separate
operations, bit for bit: the same functions run, in one loop of machine code or over blocks that stay in the cache.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from thalweg.graph.dtypes import DType, float32
from thalweg.graph.dtypes import bool as bool_
from thalweg.graph.tensor_shape import TensorShape
from thalweg.passes.step_graph import Edge, Node, StepGraph, standing_for

_LARGEST_GROUP = 32
_SHORTEST_ROW = 64  # The kernel computes shorter rows op by op, if there are columns.
_FEWEST_ELEMENTS = 256  # The kernel makes no code for fewer.

# Of an op, the numbers of its inputs' types and of its result's: whether machine code can be made for it.
CanRecord = Callable[[str, Sequence[int], int], bool]


class _Kind(NamedTuple):
    """How a node can be fused.

    Attributes:
        has_rows: There is a loop over rows of float32.
        has_code: Machine code can be made.
        width: Bytes of the lanes; 0 for any.
    """

    has_rows: bool
    has_code: bool
    width: int

    def with_member(self, other: _Kind) -> _Kind:
        """The kind of a group to which a node is added: without rows and code if the two do not go together."""
        if self is other:
            return self
        fits = 0 in (self.width, other.width) or self.width == other.width
        return _Kind(
            fits and self.has_rows and other.has_rows,
            fits and self.has_code and other.has_code,
            max(self.width, other.width),
        )


_NOT_FUSIBLE = _Kind(has_rows=False, has_code=False, width=0)


def fuse_elementwise(
    graph: StepGraph, operands_of: Callable[[str], int], can_record: CanRecord | None = None
) -> StepGraph:
    """Returns the step with trees of element-wise operations fused.

    Args:
        graph: The step.
        operands_of: How many operands an op that can be fused has; 0 for all others.
        can_record: Which ops on other types can be fused; none if None.
    """
    kinds = _kinds(graph, operands_of, can_record)
    if len(kinds) < 2:
        return graph
    fusible = {name: graph.nodes[name] for name in kinds}
    groups = _groups(graph, fusible, kinds)
    if not groups:
        return graph
    fused = {last: _fuse(graph, last, members, kinds) for last, members in groups.items()}
    gone = {name for last, members in groups.items() for name in members if name != last}
    return graph.with_nodes({name: fused.get(name, node) for name, node in graph.nodes.items() if name not in gone})


def _kinds(graph: StepGraph, operands_of: Callable[[str], int], can_record: CanRecord | None) -> dict[str, _Kind]:
    """The nodes that can be fused."""
    by_types: dict[Any, _Kind] = {}
    equal: dict[_Kind, _Kind] = {}  # One object for equal ones, for quick comparison.
    found: dict[str, _Kind] = {}
    for name, node in graph.nodes.items():
        if len(node.output_dtypes) != 1 or not 1 <= len(node.inputs) <= 3:
            continue
        key = (node.op, node.input_dtypes, node.output_dtypes)
        kind = by_types.get(key)
        if kind is None:
            kind = _kind_by_types(node, operands_of, can_record)
            kind = by_types[key] = equal.setdefault(kind, kind)
        if kind.has_code and not _has_plain_meaning(graph, node):
            kind = kind._replace(has_code=False)
        if (kind.has_rows or kind.has_code) and _all_agree([graph.shape(edge) for edge in node.inputs]):
            found[name] = kind
    return found


def _kind_by_types(node: Node, operands_of: Callable[[str], int], can_record: CanRecord | None) -> _Kind:
    """How nodes of an op type, with operands and a result of some types, can be fused."""
    dtypes = {*node.input_dtypes, *node.output_dtypes}
    has_rows = dtypes == {float32} and operands_of(_op(node)) == len(node.inputs)
    has_code = can_record is not None and can_record(
        _op(node), tuple(d.as_datatype_enum for d in node.input_dtypes), node.output_dtypes[0].as_datatype_enum
    )
    if not (has_rows or has_code):
        return _NOT_FUSIBLE
    return _Kind(has_rows, has_code, max(0 if d is bool_ else max(d.size, 4) for d in dtypes))


def _has_plain_meaning(graph: StepGraph, node: Node) -> bool:
    """Whether a node computes each element of its result from those of its operands, broadcast as usual."""
    if node.op == "Select":
        # A vector may choose whole rows.
        ranks = {graph.shape(edge).rank for edge in node.inputs}
        return len(ranks) == 1 and None not in ranks
    return not node.attrs.get("Truncate") and node.attrs.get("incompatible_shape_error") is not False


def _op(node: Node) -> str:
    return "AddV2" if node.op == "AddN" else node.op  # A sum of two; a longer one has more operands than a loop takes.


def _all_agree(shapes: Sequence[TensorShape]) -> bool:
    if len(shapes) < 3:
        return _agree(shapes[0], shapes[-1])
    return all(_agree(a, b) for a, b in itertools.combinations(shapes, 2))


def _agree(a: TensorShape, b: TensorShape) -> bool:
    """Whether two shapes may be equal, or one a scalar's, or one a row or a column of the other."""
    if a is b or a.rank == 0 or b.rank == 0 or a.is_compatible_with(b):
        return True
    return _broadcasts_rows(a.dims_tuple, b.dims_tuple)


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
        if None in columns:
            continue
        is_short = math.prod(columns) < _SHORTEST_ROW  # type: ignore[arg-type]  # None was ruled out
        if is_short and not all(dims[first:] == columns or all(d == 1 for d in dims) for dims in (a, b)):
            continue
        if all(
            _is_whole_or_one(dims[:first], whole[:first]) and _is_whole_or_one(dims[first:], columns) for dims in (a, b)
        ):
            return True
    return False


def _is_whole_or_one(dims: Sequence[int | None], whole: Sequence[int | None]) -> bool:
    return dims == whole or all(d == 1 for d in dims)


def _has_size_of(shape: TensorShape, last: TensorShape) -> bool:
    return shape is last or shape.rank == 0 or shape.is_compatible_with(last)


def _groups(graph: StepGraph, fusible: dict[str, Node], kinds: dict[str, _Kind]) -> dict[str, list[str]]:
    """Groups of two and more nodes, by the name of their last."""
    named = set(graph.targets) | {name for name, _ in graph.fetches}
    readers: dict[str, list[str]] = {name: [] for name in fusible}
    for name, node in graph.nodes.items():
        if node.controls:
            named.update(node.controls)
        for source, _ in node.inputs:
            if source in readers:
                readers[source].append(name)
    last_of: dict[str, str] = {}
    sizes: dict[str, int] = {}
    kind_of: dict[str, _Kind] = {}
    for name, node in reversed(fusible.items()):
        lasts = {last_of.get(reader) for reader in readers[name]}
        last = lasts.pop() if len(lasts) == 1 else None
        if last is not None and name not in named and sizes[last] < _LARGEST_GROUP:
            joined = kind_of[last].with_member(kinds[name])
            shape = graph.shape((last, 0))
            if (
                (joined.has_rows or (joined.has_code and _may_be_large(shape)))
                and node.device == fusible[last].device
                and _has_size_of(graph.shape((name, 0)), shape)
            ):
                last_of[name] = last
                sizes[last] += 1
                kind_of[last] = joined
                continue
        last_of[name] = name
        sizes[name] = 1
        kind_of[name] = kinds[name]
    groups: dict[str, list[str]] = {}
    for name in fusible:  # in topological order
        groups.setdefault(last_of[name], []).append(name)
    # Lanes are wider than truth values: where there is nothing else, the ops' own loops are faster.
    return {last: members for last, members in groups.items() if len(members) > 1 and kind_of[last].width > 0}


def _may_be_large(shape: TensorShape) -> bool:
    return not shape.is_fully_defined() or (shape.num_elements() or 0) >= _FEWEST_ELEMENTS


def _fuse(graph: StepGraph, last: str, members: list[str], kinds: dict[str, _Kind]) -> Node:
    has_rows = all(kinds[name].has_rows for name in members)
    most = 2 if has_rows else 3
    nodes = [graph.nodes[name] for name in members]
    inside = {name: i for i, name in enumerate(members)}
    inputs = list(dict.fromkeys([edge for node in nodes for edge in node.inputs if edge[0] not in inside]))
    value = {edge: i for i, edge in enumerate(inputs)}
    value.update(((name, 0), len(inputs) + i) for name, i in inside.items())
    operands: list[int] = []
    for node in nodes:
        operands += [*[value[edge] for edge in node.inputs], -1, -1][:most]
    attrs: dict[str, Any] = {"ops": [_op(node) for node in nodes], "operands": operands, "origins": members}
    if not has_rows:
        attrs["dtypes"] = [node.output_dtypes[0] for node in nodes]
    return graph.nodes[last]._replace(
        op="_FusedElementwise",
        attrs=standing_for(attrs, nodes),
        inputs=tuple(inputs),
        controls=tuple(dict.fromkeys(control for node in nodes for control in node.controls)),
        input_dtypes=(float32,) * len(inputs) if has_rows else _types(nodes, inputs),
    )


def _types(nodes: Sequence[Node], edges: Sequence[Edge]) -> tuple[DType, ...]:
    """The types of tensors that some of the nodes read."""
    found = {edge: t for node in nodes for edge, t in zip(node.inputs, node.input_dtypes, strict=True)}
    return tuple(found[edge] for edge in edges)
