"""The cost model: how long nodes take on types of devices, estimated from shapes, then measured.

An estimate divides the work of a node (graph/work.py) by what one core does, and adds what starting any kernel takes. A
measurement of a node replaces it, and for nodes of the same op type that were never measured it corrects the estimate.

Passes make one node of several after placement, so that the core reports fewer nodes than the placed step has: the
time of a fused node is shared among those that it stands for, in proportion to their estimates. Where a placement keeps
such nodes apart, their shares say nothing: they are estimated again (`seconds_alone`).
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from thalweg._native import core
from thalweg.graph import dtypes
from thalweg.graph.dtypes import DType
from thalweg.graph.handle_data import handle_data
from thalweg.graph.tensor_shape import TensorShape
from thalweg.graph.work import Shape, Work, WorkContext, one_pass
from thalweg.passes.fusion import fusions
from thalweg.passes.lower_loops import frames_of
from thalweg.passes.step_graph import Edge, Node, StepGraph

# One core of a present-day CPU.
FLOPS: Final = 3e10
BYTES_PER_SECOND: Final = 8e9
CACHE: Final = 4e6  # so many bytes are read and written at the other speed
CACHED_BYTES_PER_SECOND: Final = 4e10
OVERHEAD: Final = 4e-7
FREE_OVERHEAD: Final = 5e-8

_GUESSED_DIM: Final = 32  # A dimension that is not known is most often that of the batch.
_GUESSED_TRIPS: Final = 16
_DEEPEST_LOOP: Final = 3
_STRING: Final = 32  # bytes
_FORMAT: Final = "thalweg cost model"
_VERSION: Final = 2
_OWN_SOURCES: Final = frozenset({"_Arg", "Const"})


class Measurement(NamedTuple):
    """What a node took in earlier steps.

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
    """What the core has seen of a node, fused or not."""

    name: str
    op: str
    seconds: float
    runs: float
    samples: int
    members: tuple[str, ...] = ()  # the nodes of the step that it stands for, if a pass has made it


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
        self._corrections: dict[str, dict[str, float]] = {}

    @property
    def num_measured(self) -> int:
        """How many nodes have been measured, on all types of devices."""
        return sum(len(nodes) for nodes in self._measured.values())

    def measurement(self, node: Node, device_type: str) -> Measurement | None:
        """What is known of a node from earlier steps."""
        found = self._measured.get(device_type, {}).get(node.name)
        return found if found is not None and found.op == node.op else None

    def seconds(self, graph: StepGraph, node: Node, device_type: str) -> float:
        """The time of one run of a node on a device of this type that is as fast as one core."""
        found = self.measurement(node, device_type)
        if found is not None:
            return found.seconds
        return estimate(graph, node) * self._correction(node.op, device_type)

    def seconds_alone(self, graph: StepGraph, node: Node, device_type: str) -> float:
        """The same if passes do not make one node of it and others."""
        found = self.measurement(node, device_type)
        if found is not None and found.alone:
            return found.seconds
        return estimate(graph, node) * self._correction(node.op, device_type)

    def runs(self, node: Node, device_type: str, depth: int) -> float:
        """How often a node runs in a step; `depth` is the number of loops that it is in."""
        found = self.measurement(node, device_type) if depth else None
        return found.runs if found is not None else float(_GUESSED_TRIPS ** min(depth, _DEEPEST_LOOP))

    def _correction(self, op: str, device_type: str) -> float:
        """How much slower than estimated the measured nodes of this op type were."""
        known = self._corrections.get(device_type)
        if known is None:
            taken: dict[bool, dict[str, float]] = {True: {}, False: {}}
            guesses_of: dict[bool, dict[str, float]] = {True: {}, False: {}}
            for name, measured in self._measured.get(device_type, {}).items():
                times, guesses = taken[measured.alone], guesses_of[measured.alone]
                times[measured.op] = times.get(measured.op, 0.0) + measured.seconds
                guesses[measured.op] = guesses.get(measured.op, 0.0) + self._estimated[device_type].get(name, 0.0)
            known = {}
            for alone in (False, True):  # What was measured alone counts, if there is any.
                known |= {
                    op: t / guesses_of[alone][op] for op, t in taken[alone].items() if t > 0 < guesses_of[alone][op]
                }
            self._corrections[device_type] = known
        return known.get(op, 1.0)

    def record(self, graph: StepGraph, observations: Iterable[Observation], device_type: str) -> None:
        """Takes in what the core has seen of a step.

        Args:
            graph: The step as it was placed.
            observations: What ran on devices of this type.
            device_type: The type.
        """
        measured = self._measured.setdefault(device_type, {})
        estimated = self._estimated.setdefault(device_type, {})
        for members, total in _shared(graph, observations):
            guesses = [estimate(graph, node) for node in members]
            whole = sum(guesses)
            for node, guess in zip(members, guesses, strict=True):
                part = guess / whole if whole > 0 else 1 / len(members)
                alone = len(total.members) < 2 or node.name not in total.members
                measured[node.name] = Measurement(node.op, total.seconds * part, total.runs, total.samples, alone)
                estimated[node.name] = guess
        self._corrections.pop(device_type, None)

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
        costs: What nodes take.
        type_of: The types of the devices, by full name.
    """
    found = {name: costs.seconds(graph, node, type_of.get(node.device, "CPU")) for name, node in graph.nodes.items()}
    place = {name: node.device for name, node in graph.nodes.items()}
    for fusion in fusions(graph, core.operands_of_rows):
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
    if node.op in _OWN_SOURCES:
        return 0.0
    work = work_of(graph, node)
    if work.flops == 0 and work.bytes == 0:
        return FREE_OVERHEAD
    moving = min(work.bytes, CACHE) / CACHED_BYTES_PER_SECOND + max(0.0, work.bytes - CACHE) / BYTES_PER_SECOND
    return OVERHEAD + max(work.flops / FLOPS, moving)


def work_of(graph: StepGraph, node: Node) -> Work:
    """The work of one run of a node."""
    definition = node.op_def
    rule = (definition.work if definition is not None else None) or one_pass
    inputs = [guessed(graph.shape(edge).dims_tuple) for edge in node.inputs]
    outputs = [guessed(graph.shape((node.name, i)).dims_tuple) for i in range(len(node.output_dtypes))]
    if not node.output_dtypes and dtypes.resource in node.input_dtypes:
        # An update writes what lies behind its handle.
        inputs = [_behind(graph, edge) or shape for edge, shape in zip(node.inputs, inputs, strict=True)]
    input_bytes = [_bytes(shape, dtype) for shape, dtype in zip(inputs, node.input_dtypes, strict=True)]
    output_bytes = [_bytes(shape, dtype) for shape, dtype in zip(outputs, node.output_dtypes, strict=True)]
    try:
        return rule(WorkContext(node.attrs, inputs, outputs, input_bytes, output_bytes))
    except (IndexError, TypeError, ValueError):  # An imported graph may have any shapes and attributes.
        return one_pass(WorkContext(node.attrs, inputs, outputs, input_bytes, output_bytes))


def tensor_bytes(graph: StepGraph, edge: Edge) -> float:
    """The size of a tensor, as far as it can be known before the step runs."""
    dtype = graph.nodes[edge[0]].output_dtypes[edge[1]]
    return float(_bytes(guessed(graph.shape(edge).dims_tuple), dtype))


def state_bytes(graph: StepGraph, node: Node) -> float:
    """The size of the variable that a node makes, for as long as the session lives."""
    if node.op not in ("VarHandleOp", "Variable", "VariableV2"):
        return 0.0
    shape, dtype = node.attrs.get("shape"), node.attrs.get("dtype")
    if not isinstance(shape, TensorShape) or not isinstance(dtype, DType):
        return 0.0
    return float(_bytes(guessed(shape.dims_tuple), dtype))


def guessed(dims: tuple[int | None, ...] | None) -> Shape:
    """A shape with something in the place of what is not known."""
    if dims is None:
        return (_GUESSED_DIM,)
    return tuple([_GUESSED_DIM if dim is None else dim for dim in dims])


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


def _bytes(shape: Shape, dtype: DType) -> int:
    if dtype is dtypes.resource:
        return 0
    return math.prod(shape) * (dtype.base_dtype.size or _STRING)


def _behind(graph: StepGraph, edge: Edge) -> Shape | None:
    origin = graph.nodes[edge[0]].origin
    if origin is None or edge[1] >= len(origin.outputs) or origin.outputs[edge[1]].dtype is not dtypes.resource:
        return None
    data = handle_data(origin.outputs[edge[1]])
    return guessed(data.shape.dims_tuple) if data is not None else None


def _shared(graph: StepGraph, observations: Iterable[Observation]) -> list[tuple[list[Node], Observation]]:
    """For each group of the step's nodes that the core ran as one or few: what it took."""
    seen: dict[str, Observation] = {}
    for each in observations:
        if each.op in ("_Send", "_Recv"):
            continue
        name = each.name
        if each.op != "_Loop":
            # What passes add is called after the node that it serves.
            while name not in graph.nodes and "/" in name:
                name = name.rpartition("/")[0]
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
        if host is not None and node.op not in _OWN_SOURCES and (name in seen or name not in constant):
            members.setdefault(host, []).append(node)
    return [(members[host], total) for host, total in seen.items() if host in members]


def _hosts(graph: StepGraph, seen: Mapping[str, Observation]) -> dict[str, str]:
    """For each node that did not run by itself, the one that ran for it: one made of it, its loop, or what reads it."""
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
