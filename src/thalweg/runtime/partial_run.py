"""Partial runs: one step that is fed and fetched piece by piece, through its rendezvous."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from thalweg import errors
from thalweg._native import core
from thalweg.graph import dtypes
from thalweg.graph.graph import Graph
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.passes.step_graph import Edge, Node, StepGraph
from thalweg.runtime.fetches import FetchPlan, feed_tensors, resolve_feeds
from thalweg.runtime.placement import device_type

Compiled = Callable[[list[Tensor], list[Tensor], list[Operation], Callable[[StepGraph], StepGraph]], Any]


class PartialRun:
    """A step under way: what may still be fed and fetched, and the native step that waits for it."""

    def __init__(self, graph: Graph, fetches: Any, feeds: list[Any], host: str, compiled: Compiled) -> None:
        """Compiles the step and starts it; it waits at its first missing feed.

        Args:
            graph: The session's graph.
            fetches: All that will be fetched.
            feeds: All that will be fed.
            host: A device whose memory is the host's.
            compiled: Compiles a step, given its feeds, fetches and targets, and how to change it once it is placed.
        """
        self._graph = graph
        plan = FetchPlan(graph, fetches)
        fed = [tensor for key in feeds for tensor in feed_tensors(graph, key)]
        self._feeds = dict.fromkeys(fed, False)
        self._fetches = dict.fromkeys(plan.tensors, False)
        self._targets = dict.fromkeys(plan.targets, False)

        def change(step: StepGraph) -> StepGraph:
            return through_rendezvous(step, plan.tensors, fed, host)

        self._native = core.PartialStep(compiled(fed, plan.tensors, plan.targets, change))

    @property
    def finished(self) -> bool:
        """Whether everything that was announced has been fetched."""
        return all(self._fetches.values()) and all(self._targets.values())

    def step(self, fetches: Any, feed_dict: Mapping[Any, Any]) -> Any:
        """Sends these feeds and waits for these fetches."""
        plan = FetchPlan(self._graph, fetches)
        given = resolve_feeds(self._graph, feed_dict)
        for tensor in given:
            self._check(self._feeds, tensor, "fed")
        for tensor in plan.tensors:
            self._check(self._fetches, tensor, "fetched")
        for op in plan.targets:
            self._check(self._targets, op, "run")
        for tensor, value in given.items():
            self._feeds[tensor] = True
            self._native.send(_feed_name(tensor), tensor.dtype.as_datatype_enum, value)
        values = []
        for tensor in plan.tensors:
            values.append(self._native.recv(_fetch_name(tensor)))
            self._fetches[tensor] = True
        for op in plan.targets:
            self._native.recv(_target_name(op.name))
            self._targets[op] = True
        return plan.build(values)

    @staticmethod
    def _check(announced: dict[Any, bool], element: Any, verb: str) -> None:
        if element not in announced:
            raise errors.InvalidArgumentError(
                None, None, f"{element.name} was not named in partial_run_setup, so it cannot be {verb}."
            )
        if announced[element]:
            raise errors.InvalidArgumentError(None, None, f"{element.name} was already {verb} in this partial run.")


def through_rendezvous(graph: StepGraph, fetches: list[Tensor], feeds: list[Tensor], host: str) -> StepGraph:
    """The step with `_Recv` nodes for its feeds and `_Send` nodes for its fetches and targets.

    They are on the devices of what they feed and fetch, or on `host` if those have no memory that the host can see.
    """
    nodes: dict[str, Node] = {}

    def near(device: str) -> str:
        return device if device_type(device) == "CPU" else host

    for name, node in graph.nodes.items():
        if node.op == "_Arg":
            tensor = feeds[node.attrs["index"]]
            attrs = {"tensor_name": _feed_name(tensor).encode(), "tensor_type": node.output_dtypes[0]}
            node = node._replace(op="_Recv", attrs=attrs, device=near(node.device))
        nodes[name] = node

    def send(name: str, edge: Edge, controls: tuple[str, ...] = ()) -> None:
        source = nodes[edge[0]]
        dtype = source.output_dtypes[edge[1]]
        attrs = {"tensor_name": name.encode(), "T": dtype}
        device = near(source.device)
        nodes[f"_send/{name}"] = Node(f"_send/{name}", "_Send", attrs, (edge,), controls, device, (dtype,), (), None)

    for tensor, edge in zip(fetches, graph.fetches, strict=True):
        send(_fetch_name(tensor), edge)
    for target in graph.targets:
        name = f"_done/{target}"
        nodes[name] = Node(
            name, "Const", {"value": np.zeros((), np.int32), "dtype": dtypes.int32}, (), (target,),
            near(nodes[target].device), (), (dtypes.int32,), None,
        )  # fmt: skip
        send(_target_name(target), (name, 0))
    return StepGraph(nodes, (), (), ())


def _feed_name(tensor: Tensor) -> str:
    return f"feed:{tensor.name}"


def _fetch_name(tensor: Tensor) -> str:
    return f"fetch:{tensor.name}"


def _target_name(name: str) -> str:
    return f"target:{name}"
