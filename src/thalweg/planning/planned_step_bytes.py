"""Planned steps as bytes and back: nodes as GraphDefs, and beside them what a GraphDef has no field for.

The message is a protobuf, so that unknown fields of a later version are skipped; `VERSION` changes when an older
program could misread a step. `describe` prints a step in the text form of the same message, for looking at and diffing.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Final

from thalweg.graph.dtypes import as_dtype
from thalweg.graph.messages.attr_values import read_shape, write_shape
from thalweg.graph.messages.runtime_messages import Field, make_messages
from thalweg.passes.node_def import edge_text, read_edge, read_node, write_node
from thalweg.passes.options import PassOptions
from thalweg.passes.step_graph import Feed, StepGraph
from thalweg.planning.graph_checks import check_graph
from thalweg.planning.planned_step import PlannedFunction, PlannedPart, PlannedStep, referred_names

VERSION: Final = 1

_MESSAGES: Final[dict[str, list[Field]]] = {
    "FeedDef": [("name", 1, "string"), ("dtype", 2, "int32"), ("shape", 3, ".tensorboard.TensorShapeProto")],
    "StepGraphDef": [
        ("graph", 1, ".tensorboard.GraphDef"),
        ("feed", 2, "*FeedDef"),
        ("fetch", 3, "*string"),
        ("target", 4, "*string"),
    ],
    "DelayDef": [("node", 1, "string"), ("waits_for", 2, "string")],
    "PlannedPartDef": [
        ("device", 1, "string"),
        ("step_graph", 2, "StepGraphDef"),
        ("feed_position", 3, "*int32"),
        ("fetch_position", 4, "*int32"),
        ("priority", 5, "map double"),
        ("delay", 6, "*DelayDef"),
    ],
    "PlannedFunctionDef": [("name", 1, "string"), ("step_graph", 2, "StepGraphDef"), ("output_dtype", 3, "*int32")],
    "PlannedStepDef": [
        ("version", 1, "int32"),
        ("part", 2, "*PlannedPartDef"),
        ("function", 3, "*PlannedFunctionDef"),
        ("feed", 4, "*FeedDef"),
        ("num_fetches", 5, "int32"),
        ("option", 6, "map bool"),
        ("changes_resources", 7, "bool"),
        ("expected_seconds", 8, "double"),
    ],
}


@functools.cache
def _messages() -> dict[str, Any]:
    from tensorboard.compat.proto import graph_pb2, tensor_shape_pb2  # Start-up time: protobuf is slow to import.

    files = (graph_pb2.DESCRIPTOR.name, tensor_shape_pb2.DESCRIPTOR.name)
    return make_messages("thalweg/planned_step.proto", _MESSAGES, dependencies=files)


def to_bytes(step: PlannedStep) -> bytes:
    """A planned step as bytes. `placed`, which only its own process needs, is left out.

    Raises:
        TypeError: If an attribute of a node has no form in a GraphDef.
    """
    serialized: bytes = _to_proto(step).SerializeToString(deterministic=True)
    return serialized


def describe(step: PlannedStep) -> str:
    """A planned step as text."""
    from google.protobuf import text_format  # Start-up time: protobuf is slow to import.

    text: str = text_format.MessageToString(_to_proto(step))
    return text


def from_bytes(data: bytes) -> PlannedStep:
    """The planned step that `to_bytes` wrote.

    Raises:
        ValueError: If the bytes are not a planned step, one of another version, or one that contradicts itself.
    """
    from google.protobuf.message import DecodeError  # Start-up time: protobuf is slow to import.

    try:
        proto = _messages()["PlannedStepDef"].FromString(data)
    except DecodeError as e:
        raise ValueError(f"The bytes are not a planned step: {e}") from None
    if proto.version != VERSION:
        raise ValueError(f"The planned step has version {proto.version}, and this program reads version {VERSION}.")
    try:
        return _read_step(proto)
    except (TypeError, AttributeError) as e:  # A type that does not exist, or an attribute of another kind.
        raise ValueError(f"The planned step holds an invalid value: {e}") from None


# Writing.


def _to_proto(step: PlannedStep) -> Any:
    proto = _messages()["PlannedStepDef"](version=VERSION, num_fetches=step.num_fetches)
    for device, part in step.parts.items():
        entry = proto.part.add(device=device, feed_position=part.feeds, fetch_position=part.fetches)
        _write_graph(entry.step_graph, part.graph)
        entry.priority.update(part.priorities)
        for node, awaited in part.delays:
            entry.delay.add(node=node, waits_for=awaited)
    for function in step.functions.values():
        entry = proto.function.add(name=function.name)
        _write_graph(entry.step_graph, function.graph)
        entry.output_dtype.extend(dtype.as_datatype_enum for dtype in function.output_dtypes)
    for feed in step.feeds:
        _write_feed(proto.feed.add(), feed)
    proto.option.update(step.options._asdict())
    proto.changes_resources = step.changes_resources
    proto.expected_seconds = step.expected_seconds or 0.0
    return proto


def _write_graph(proto: Any, graph: StepGraph) -> None:
    for node in graph.nodes.values():
        write_node(proto.graph.node.add(), node)
    for feed in graph.feeds:
        _write_feed(proto.feed.add(), feed)
    proto.fetch.extend(edge_text(edge) for edge in graph.fetches)
    proto.target.extend(graph.targets)


def _write_feed(proto: Any, feed: Feed) -> None:
    proto.name, proto.dtype = feed.name, feed.dtype.as_datatype_enum
    write_shape(proto.shape, feed.shape)


# Reading. A step may come from a peer: all its references are checked.


def _read_step(proto: Any) -> PlannedStep:
    feeds = tuple(_read_feed(each) for each in proto.feed)
    functions = {
        each.name: PlannedFunction(each.name, _read_graph(each.step_graph), tuple(map(as_dtype, each.output_dtype)))
        for each in proto.function
    }
    parts = {each.device: _read_part(each, feeds, proto.num_fetches) for each in proto.part}
    if not parts:
        raise ValueError("The planned step has no parts.")
    made = {position for part in parts.values() for position in part.fetches}
    if len(made) != proto.num_fetches:
        raise ValueError(f"The planned step has {proto.num_fetches} fetches, and its parts make {len(made)}.")
    for graph in (*(part.graph for part in parts.values()), *(function.graph for function in functions.values())):
        for node in graph.nodes.values():
            for name in referred_names(node):
                if name not in functions:
                    raise ValueError(f"Node '{node.name}' refers to the function '{name}', which the step lacks.")
    return PlannedStep(
        parts, functions, feeds, proto.num_fetches, _read_options(proto.option), proto.changes_resources,
        proto.expected_seconds or None,
    )  # fmt: skip


def _read_part(proto: Any, given: tuple[Feed, ...], num_fetches: int) -> PlannedPart:
    graph = _read_graph(proto.step_graph)
    feeds, fetches = tuple(proto.feed_position), tuple(proto.fetch_position)
    if len(feeds) != len(graph.feeds) or not all(0 <= each < len(given) for each in feeds):
        raise ValueError(
            f"Part '{proto.device}' has feeds {feeds} of {len(given)}, and {len(graph.feeds)} in its graph."
        )
    for feed, position in zip(graph.feeds, feeds, strict=True):
        if feed.dtype is not given[position].dtype:
            raise ValueError(
                f"Part '{proto.device}' has '{feed.name}' as {feed.dtype.name}, and the step has "
                f"{given[position].dtype.name}."
            )
    if len(fetches) != len(graph.fetches) or not all(0 <= each < num_fetches for each in fetches):
        raise ValueError(
            f"Part '{proto.device}' has fetches {fetches} of {num_fetches}, and {len(graph.fetches)} in its graph."
        )
    if not all(math.isfinite(each) for each in proto.priority.values()):
        raise ValueError(f"Part '{proto.device}' has a priority that is not a finite number.")
    delays = tuple((each.node, each.waits_for) for each in proto.delay)
    return PlannedPart(graph, feeds, fetches, dict(proto.priority), delays)


def _read_graph(proto: Any) -> StepGraph:
    nodes = {}
    for each in proto.graph.node:
        if each.name in nodes:
            raise ValueError(f"Two nodes of one part are called '{each.name}'.")
        nodes[each.name] = read_node(each)
    feeds = tuple(_read_feed(each) for each in proto.feed)
    graph = StepGraph(nodes, feeds, tuple(read_edge(each) for each in proto.fetch), tuple(proto.target))
    check_graph(graph)
    return graph


def _read_feed(proto: Any) -> Feed:
    return Feed(proto.name, as_dtype(proto.dtype), read_shape(proto.shape))


def _read_options(proto: Any) -> PassOptions:
    known = {name: bool(value) for name, value in proto.items() if name in PassOptions._fields}
    return PassOptions(**known)
