"""Partial runs: one step that is fed and fetched piece by piece, through its rendezvous."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from thalweg import errors
from thalweg.graph.graph import Graph
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.passes.through_rendezvous import feed_name, fetch_name, target_name
from thalweg.runtime.fetches import FetchPlan, feed_tensors, resolve_feeds

Start = Callable[[list[Tensor], list[Tensor], list[Operation]], Any]


class PartialRun:
    """A running step: its feeds, fetches and targets, which of them are done, and the native step."""

    def __init__(self, graph: Graph, fetches: Any, feeds: list[Any], start: Start) -> None:
        """Starts the step; it waits at its first missing feed.

        Args:
            graph: The session's graph.
            fetches: All that will be fetched.
            feeds: All that will be fed.
            start: Starts a step that is fed and fetched piece by piece, given its feeds, fetches and targets.
        """
        self._graph = graph
        plan = FetchPlan(graph, fetches)
        if not plan.tensors and not plan.targets:
            raise errors.InvalidArgumentError(None, None, "Must specify at least one target to fetch or execute.")
        fed = [tensor for key in feeds for tensor in feed_tensors(graph, key)]
        self._feeds = dict.fromkeys(fed, False)
        self._fetches = dict.fromkeys(plan.tensors, False)
        self._targets = dict.fromkeys(plan.targets, False)
        self._native = start(fed, plan.tensors, plan.targets)

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
            self._native.send(feed_name(tensor.name), tensor.dtype.as_datatype_enum, value)
        values = []
        for tensor in plan.tensors:
            values.append(self._native.recv(fetch_name(tensor.name)))
            self._fetches[tensor] = True
        for op in plan.targets:
            self._native.recv(target_name(op.name))
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
