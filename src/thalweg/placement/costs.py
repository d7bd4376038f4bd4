"""The cost model: how long nodes take on types of devices, estimated from shapes, then measured.

An estimate divides the work of a node (graph/definitions/work.py) by the speed of one core, and adds the overhead of
starting a kernel. A measurement of a node replaces it, and for nodes of the same op type that were never measured it
corrects the estimate, above all for those of about the same size.

Passes make one node of several after placement, so that the core reports fewer nodes than the placed step has: the
time of a fused node is shared among those that it stands for, in proportion to their estimates. Where a placement keeps
such nodes apart, their shares say nothing: they are estimated again (`seconds_alone`).
"""

from __future__ import annotations

import bisect
import itertools
import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from thalweg._native import core
from thalweg.graph.definitions.op_registry import effect_of
from thalweg.graph.dtypes import DType
from thalweg.graph.op_effects import Effect
from thalweg.graph.tensor_shape import TensorShape
from thalweg.passes.fusion import fusions, may_join_sums
from thalweg.passes.lower_loops import frames_of
from thalweg.passes.node_work import bytes_of, guessed, work_of
from thalweg.passes.step_graph import Edge, Node, StepGraph

# One core of a present-day CPU.
FLOPS: Final = 3e10
BYTES_PER_SECOND: Final = 1e10
CACHE: Final = 4e6  # bytes that are read and written at the next speed
CACHED_BYTES_PER_SECOND: Final = 4e10
OVERHEAD: Final = 4e-7
FREE_OVERHEAD: Final = 5e-8

_SIMILAR: Final = 8  # Nodes of one op type are similar if their estimates differ by no more than this factor.
_FAR: Final = 64  # Nodes that are smaller by more than this factor say nothing about a node.
_SMALL: Final = 2e-5  # seconds
_GUESSED_TRIPS: Final = 16
_DEEPEST_LOOP: Final = 3
_FORMAT: Final = "thalweg cost model"
_VERSION: Final = 2
_WORKLESS: Final = frozenset({"_Arg", "Const"})


class Measurement(NamedTuple):
    """The measured time of a node in earlier steps.

    Attributes:
        op: Its type. The measurement says nothing about a node of the same name and another type.
        seconds: Of one run.
        runs: How often it ran in a step.
        samples: How many steps were observed.
        alone: Whether it was run by itself, not as a part of a fused node.
    """

    op: str
    seconds: float
    runs: float
    samples: int
    alone: bool = True


class Observation(NamedTuple):
    """The core's measurement of a node, fused or not."""

    name: str
    op: str
    seconds: float
    runs: float
    samples: int
    members: tuple[str, ...] = ()  # the nodes of the step that it stands for, if a pass has made it


class _Ratios:
    """How much longer than estimated the measured nodes of one op type took."""

    def __init__(self, pairs: Iterable[tuple[float, float]]) -> None:
        """Takes estimated and measured times."""
        ordered = sorted(pairs)
        self._guesses = [guess for guess, _ in ordered]
        self._sums = [0.0, *itertools.accumulate(guess for guess, _ in ordered)]
        self._times = [0.0, *itertools.accumulate(time for _, time in ordered)]

    def at(self, guess: float) -> float:
        """The ratio for a node that is estimated to take so long: that of nodes of about this size.

        If there are none, small nodes are left out: their times are overhead, or those of the cache.
        """
        for least, most in ((guess / _SIMILAR, guess * _SIMILAR), (max(_SMALL, guess / _FAR), math.inf)):
            begin, end = bisect.bisect_left(self._guesses, least), bisect.bisect_right(self._guesses, most)
            if begin < end:
                return (self._times[end] - self._times[begin]) / (self._sums[end] - self._sums[begin])
        return 1.0


_NO_RATIOS: Final = _Ratios(())


class CostModel:
    """Times of nodes by type of device.

    Example:
        >>> costs = tf.placement.CostModel()
        >>> costs.num_measured
        0
    """

    def __init__(self) -> None:
        """Begins with nothing measured."""
        self._measured: dict[str, dict[str, Measurement]] = {}
        self._estimated: dict[str, dict[str, float]] = {}  # of the same nodes, to correct other estimates by
        self._ratios: dict[str, dict[str, _Ratios]] = {}

    @property
    def num_measured(self) -> int:
        """How many nodes have been measured, on all types of devices."""
        return sum(len(nodes) for nodes in self._measured.values())

    @property
    def has_fused(self) -> bool:
        """Whether a node was measured as a part of a fused one: it costs more if it runs alone."""
        return any(not found.alone for nodes in self._measured.values() for found in nodes.values())

    def measurement(self, node: Node, device_type: str) -> Measurement | None:
        """The measurement of a node in earlier steps, if there is one."""
        found = self._measured.get(device_type, {}).get(node.name)
        return found if found is not None and found.op == node.op else None

    def seconds(self, graph: StepGraph, node: Node, device_type: str) -> float:
        """The time of one run of a node on a device of this type that is as fast as one core."""
        found = self.measurement(node, device_type)
        if found is not None:
            return found.seconds
        return self._corrected(graph, node, device_type)

    def seconds_alone(self, graph: StepGraph, node: Node, device_type: str) -> float:
        """The time of one run of a node that passes do not fuse with others."""
        found = self.measurement(node, device_type)
        if found is not None and found.alone:
            return found.seconds
        return self._corrected(graph, node, device_type)

    def runs(self, node: Node, device_type: str, depth: int) -> float:
        """How often a node runs in a step; `depth` is the number of loops that it is in."""
        found = self.measurement(node, device_type) if depth else None
        return found.runs if found is not None else float(_GUESSED_TRIPS ** min(depth, _DEEPEST_LOOP))

    def _corrected(self, graph: StepGraph, node: Node, device_type: str) -> float:
        guess = estimate(graph, node)
        return guess * self._ratios_of(device_type).get(node.op, _NO_RATIOS).at(guess)

    def _ratios_of(self, device_type: str) -> dict[str, _Ratios]:
        known = self._ratios.get(device_type)
        if known is None:
            pairs: dict[bool, dict[str, list[tuple[float, float]]]] = {False: {}, True: {}}
            for name, measured in self._measured.get(device_type, {}).items():
                guess = self._estimated[device_type].get(name, 0.0)
                if guess > 0 < measured.seconds:
                    pairs[measured.alone].setdefault(measured.op, []).append((guess, measured.seconds))
            # Measurements of nodes that ran alone take precedence.
            known = {op: _Ratios(found) for op, found in (pairs[False] | pairs[True]).items()}
            self._ratios[device_type] = known
        return known

    def record(self, graph: StepGraph, observations: Iterable[Observation], device_type: str) -> None:
        """Adds the core's measurements of a step.

        Args:
            graph: The step as it was placed.
            observations: The nodes that ran on devices of this type.
            device_type: The type.
        """
        measured = self._measured.setdefault(device_type, {})
        estimated = self._estimated.setdefault(device_type, {})
        for members, total in _grouped(graph, observations):
            guesses = [estimate(graph, node) for node in members]
            whole = sum(guesses)
            for node, guess in zip(members, guesses, strict=True):
                part = guess / whole if whole > 0 else 1 / len(members)
                alone = len(total.members) < 2 or node.name not in total.members
                measured[node.name] = Measurement(node.op, total.seconds * part, total.runs, total.samples, alone)
                estimated[node.name] = guess
        self._ratios.pop(device_type, None)

    def save(self, path: str) -> None:
        """Writes the measurements to a JSON file, at once or not at all."""
        nodes = {
            kind: {name: [m.op, m.seconds, m.runs, m.samples, self._estimated[kind].get(name, 0.0), m.alone]
                   for name, m in measured.items()}
            for kind, measured in self._measured.items()
        }  # fmt: skip
        temporary = f"{path}.{os.getpid()}.tmp"
        Path(temporary).write_text(
            json.dumps({"format": _FORMAT, "version": _VERSION, "nodes": nodes}), encoding="utf-8"
        )
        os.replace(temporary, path)

    @classmethod
    def load(cls, path: str) -> CostModel:
        """Reads what `save` wrote.

        Raises:
            ValueError: If the file is not a cost model, or one of another version.
            OSError: If it cannot be read.
        """
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as e:
            raise ValueError(f"{path} is not a cost model: it is not JSON ({e})") from None
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            raise ValueError(f"{path} is not a cost model: its format is not {_FORMAT!r}")
        if content.get("version") != _VERSION:
            raise ValueError(
                f"{path} is a cost model of version {content.get('version')!r}, and this program reads {_VERSION}; "
                "measure again"
            )
        model = cls()
        try:
            for kind, nodes in content["nodes"].items():
                for name, (op, seconds, runs, samples, guess, alone) in nodes.items():
                    numbers = [float(seconds), float(runs), float(guess)]
                    if not all(math.isfinite(number) and number >= 0 for number in numbers):
                        raise ValueError(f"node {name!r} took {seconds!r} s, {runs!r} times")
                    entry = Measurement(str(op), numbers[0], numbers[1], int(samples), bool(alone))
                    model._measured.setdefault(str(kind), {})[str(name)] = entry
                    model._estimated.setdefault(str(kind), {})[str(name)] = numbers[2]
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as e:
            raise ValueError(f"{path} is a damaged cost model: {e}") from None
        return model


def placed_seconds(graph: StepGraph, costs: CostModel, type_of: Mapping[str, str]) -> dict[str, float]:
    """How long one run of each node of a placed step takes.

    Args:
        graph: The step.
        costs: The costs of nodes.
        type_of: The types of the devices, by full name.
    """
    found = {name: costs.seconds(graph, node, type_of.get(node.device, "CPU")) for name, node in graph.nodes.items()}
    place = {name: node.device for name, node in graph.nodes.items()}
    if not costs.has_fused and not may_join_sums(graph):
        return found  # Nodes cost the same, whether passes fuse them or not.
    for fusion in fusions(graph, core.operands_of_rows, core.can_record):
        here = fusion.together(place)
        if len(here) == len(fusion.nodes):
            continue
        for name in fusion.nodes:
            if name not in here:
                found[name] = costs.seconds_alone(graph, graph.nodes[name], type_of.get(place[name], "CPU"))
        if here:
            last = graph.nodes[here[-1]]
            alone = costs.seconds_alone(graph, last, type_of.get(last.device, "CPU"))
            found[last.name] += fusion.left_to_add(here) * alone
    return found


def estimate(graph: StepGraph, node: Node) -> float:
    """The time of one run of a node on one core, from the shapes that are known before the step runs."""
    if node.op in _WORKLESS:
        return 0.0
    work = work_of(graph, node)
    if work.flops == 0 and work.bytes == 0:
        return FREE_OVERHEAD
    moving = min(work.bytes, CACHE) / CACHED_BYTES_PER_SECOND + max(0.0, work.bytes - CACHE) / BYTES_PER_SECOND
    return OVERHEAD + max(work.flops / FLOPS, moving)


def tensor_bytes(graph: StepGraph, edge: Edge) -> float:
    """The size of a tensor, as far as it can be known before the step runs."""
    dtype = graph.nodes[edge[0]].output_dtypes[edge[1]]
    return float(bytes_of(guessed(graph.shape(edge).dims_tuple), dtype))


def state_bytes(graph: StepGraph, node: Node) -> float:
    """The size of the variable that a node makes, for as long as the session lives."""
    if effect_of(node.op) is not Effect.CREATES:
        return 0.0
    shape, dtype = node.attrs.get("shape"), node.attrs.get("dtype")
    if not isinstance(shape, TensorShape) or not isinstance(dtype, DType):
        return 0.0
    return float(bytes_of(guessed(shape.dims_tuple), dtype))


def folded(graph: StepGraph) -> set[str]:
    """The nodes that depend on nothing but constants: a pass computes them before the step runs."""
    found: set[str] = set()
    for name, node in graph.nodes.items():
        if node.op == "Const":
            if not node.controls:
                found.add(name)
        elif node.inputs and not node.controls and all(s in found for s, _ in node.inputs) and node.pure:
            found.add(name)
    return found


def _grouped(graph: StepGraph, observations: Iterable[Observation]) -> list[tuple[list[Node], Observation]]:
    """Groups of the step's nodes that the core ran as one or few, each with its measurement."""
    seen: dict[str, Observation] = {}
    computing = [each for each in observations if each.op not in ("_Send", "_SendAll", "_Recv")]
    part_of = {member: each.name for each in computing for member in each.members}
    for each in computing:
        name = each.name
        if each.op != "_Loop" and name not in graph.nodes:
            # A helper of a node that has become part of a fused node belongs to the fused node.
            name = _owner(graph, name)
            name = _owner(graph, part_of.get(name, name))
        if name in seen:
            known = seen[name]
            total = known.seconds * known.runs + each.seconds * each.runs
            runs = max(known.runs, each.runs, 1e-9)
            each = each._replace(seconds=total / runs, runs=runs, members=known.members + each.members)
        seen[name] = each
    hosts = _hosts(graph, seen)
    constant = folded(graph)
    members: dict[str, list[Node]] = {}
    for name, node in graph.nodes.items():
        host = name if name in seen else hosts.get(name)
        if host is not None and node.op not in _WORKLESS and (name in seen or name not in constant):
            members.setdefault(host, []).append(node)
    return [(members[host], total) for host, total in seen.items() if host in members]


def _owner(graph: StepGraph, name: str) -> str:
    """The node of the step that a pass has made a helper for: the helper's name begins with the owner's."""
    while name not in graph.nodes and "/" in name:
        name = name.rpartition("/")[0]
    return name


def _hosts(graph: StepGraph, seen: Mapping[str, Observation]) -> dict[str, str]:
    """For each node that did not run by itself, the node that ran for it: a fused one, its loop, or its reader."""
    hosts = {member: name for name, each in seen.items() for member in each.members if member not in seen}
    loops = {name.removesuffix("/_loop"): name for name in seen if name.endswith("/_loop")}
    if loops:
        for frame in frames_of(graph) or ():
            outer, loop = frame, None
            while outer.parent is not None:
                loop = next((loops[e.name] for e in outer.enters if e.name in loops), loop)
                outer = outer.parent
            if loop is not None:
                hosts.update((node.name, loop) for node in (*frame.nodes, *frame.enters) if node.name not in seen)
    for name, node in reversed(graph.nodes.items()):
        host = name if name in seen else hosts.get(name)
        if host is not None:
            for source, _ in node.inputs:
                if source not in seen:
                    hosts.setdefault(source, host)
    return hosts
