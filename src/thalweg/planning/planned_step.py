"""PlannedStep: a step as a value: for each device its nodes, feeds, fetches, transfers and priorities.

It refers to no live graph, session or kernel. Passes that depend on the kernels of a task (fusion, packed weights,
lowered loops) are left to the task that installs a part (`runtime/install.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from thalweg.graph.definitions.op_signature import NameAttrList
from thalweg.graph.dtypes import DType
from thalweg.passes.inline_functions import function_attrs
from thalweg.passes.options import PassOptions
from thalweg.passes.step_graph import Feed, Node, StepGraph


class Transfer(NamedTuple):
    """A tensor that a step moves from one device to another.

    Attributes:
        tensor: Its name in the `_Send` and the `_Recv`.
        source: The full name of the device that sends it.
        destination: The full name of the device that receives it.
        dtype: Its type.
        compressed: Whether it travels in 16 bits.
    """

    tensor: str
    source: str
    destination: str
    dtype: DType
    compressed: bool


@dataclass(frozen=True)
class PlannedPart:
    """One device's part of a step.

    Attributes:
        graph: Its nodes; feeds, fetches and targets are those that concern it.
        feeds: For each of its feeds, which of the step's feeds it is.
        fetches: For each of its fetches, which of the step's fetches it is.
        priorities: By name, of nodes and of the fused nodes that are expected: of the ready nodes, the one with the
            greatest number runs first. Empty if the order does not matter to other devices.
        delays: Pairs of a node and another of the same part that it waits for, once nodes are fused: they keep large
            tensors from being made long before another device needs them.
    """

    graph: StepGraph
    feeds: tuple[int, ...]
    fetches: tuple[int, ...]
    priorities: Mapping[str, float] = field(default_factory=dict)
    delays: tuple[tuple[str, str], ...] = ()

    @property
    def sends(self) -> list[Transfer]:
        """The tensors that it sends to other devices."""
        return [_transfer(node) for node in self.graph.nodes.values() if node.op == "_Send"]

    @property
    def receives(self) -> list[Transfer]:
        """The tensors that it receives from other devices."""
        return [_transfer(node) for node in self.graph.nodes.values() if node.op == "_Recv"]


@dataclass(frozen=True)
class PlannedFunction:
    """The body of a function that nodes of a step call, directly or by way of other functions.

    Attributes:
        name: The name by which nodes refer to it.
        graph: The body; its feeds are the arguments, its fetches the results.
        output_dtypes: The types of the results.
    """

    name: str
    graph: StepGraph
    output_dtypes: tuple[DType, ...]


@dataclass(frozen=True)
class PlannedStep:
    """A step, pruned, placed, cut and scheduled.

    Attributes:
        parts: The part of each device, by its full name.
        functions: The functions that nodes refer to, by name.
        feeds: The tensors that the caller gives values for.
        num_fetches: How many tensors it returns.
        options: Which passes run when a part is installed.
        changes_resources: Whether it may change a variable, or anything else that outlives it.
        expected_seconds: How long it should take, if it was scheduled over several devices.
        placed: The step before it was cut, for cost models. None if the step was read from bytes.
        fused: By device, the graphs that a task with the kernels that the planner expected would make of the parts.
            None if the step was not scheduled, or was read from bytes.
    """

    parts: dict[str, PlannedPart]
    functions: dict[str, PlannedFunction]
    feeds: tuple[Feed, ...]
    num_fetches: int
    options: PassOptions = PassOptions()  # noqa: RUF009 (immutable)
    changes_resources: bool = False
    expected_seconds: float | None = None
    placed: StepGraph | None = field(default=None, compare=False, repr=False)
    fused: Mapping[str, StepGraph] | None = field(default=None, compare=False, repr=False)

    @property
    def transfers(self) -> list[Transfer]:
        """All tensors that move between devices."""
        return [transfer for part in self.parts.values() for transfer in part.sends]

    def restricted(self, devices: Collection[str]) -> PlannedStep:
        """The parts of some devices, with the functions that they use; feeds and fetches are numbered anew."""
        parts = {device: part for device, part in self.parts.items() if device in devices}
        feeds = sorted({feed for part in parts.values() for feed in part.feeds})
        fetches = sorted({fetch for part in parts.values() for fetch in part.fetches})
        feed_at = {old: new for new, old in enumerate(feeds)}
        fetch_at = {old: new for new, old in enumerate(fetches)}
        parts = {
            device: replace(
                part,
                feeds=tuple(feed_at[feed] for feed in part.feeds),
                fetches=tuple(fetch_at[fetch] for fetch in part.fetches),
            )
            for device, part in parts.items()
        }
        used = _used([part.graph for part in parts.values()], self.functions)
        return replace(
            self, parts=parts, functions=used, feeds=tuple(self.feeds[i] for i in feeds), num_fetches=len(fetches),
            placed=None, fused=None,
        )  # fmt: skip


def referred_names(node: Node) -> Iterator[str]:
    """The names of the functions that a node of a planned step refers to."""
    for name in function_attrs(node.op):
        value = node.attrs.get(name)
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, NameAttrList):
                yield each.name


def _used(graphs: list[StepGraph], functions: Mapping[str, PlannedFunction]) -> dict[str, PlannedFunction]:
    """The functions that some graphs use, and those that their bodies use."""
    found: dict[str, PlannedFunction] = {}
    waiting = list(graphs)
    while waiting:
        for node in waiting.pop().nodes.values():
            for name in referred_names(node):
                if name not in found:
                    found[name] = functions[name]
                    waiting.append(functions[name].graph)
    return found


def _transfer(node: Node) -> Transfer:
    attrs = node.attrs
    return Transfer(
        attrs["tensor_name"].decode(),
        attrs.get("send_device", b"").decode(),
        attrs.get("recv_device", b"").decode(),
        attrs["T"] if node.op == "_Send" else attrs["tensor_type"],
        bool(attrs.get("_compress")),
    )
