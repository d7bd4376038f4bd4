"""Measurements: the times of a session's steps, node by node, for its cost model."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from thalweg.passes.step_graph import StepGraph
from thalweg.placement.costs import CostModel, Observation
from thalweg.placement.options import PlacementOptions
from thalweg.placement.place import Device
from thalweg.platform.forks import watch_lock
from thalweg.runtime.trace import traced_nodes

if TYPE_CHECKING:
    from thalweg.runtime.session import BaseSession


class Measurements:
    """The measured steps of one session. Thread-safe."""

    def __init__(self, options: PlacementOptions) -> None:
        """Reads the costs that earlier runs have left, if the options name a file of them."""
        self._options = options
        self._types: dict[str, str] = {}
        self._lock = threading.Lock()
        watch_lock(self)
        self._observed: list[tuple[Any, StepGraph]] = []
        self._costs: CostModel | None = None
        if options.costs and os.path.exists(options.costs):
            self.costs()

    def observe(self, compiled: Any, placed: StepGraph | None, devices: Sequence[Device]) -> None:
        """Measures a compiled step from now on, if the session was asked to measure.

        Args:
            compiled: The core's CompiledStep.
            placed: The step as it was placed, before passes made other nodes of it.
            devices: The session's devices.
        """
        every, after = self._options.measure_every, self._options.measure_after
        if every < 0 or placed is None:
            return
        # TensorFlow's n-th step is the last of n; the first step of all allocates memory that later ones reuse.
        compiled.sample(every or -1, after + every - 1 if every else max(after, 1))
        with self._lock:
            self._types = {device.name: device.type for device in devices}
            self._observed.append((compiled, placed))

    def graph_of(self, compiled: Any) -> StepGraph | None:
        """The placed step that a compiled one was made of, if it is measured."""
        with self._lock:
            return next((graph for each, graph in self._observed if each is compiled), None)

    def costs(self) -> CostModel:
        """The cost model, with all measurements so far."""
        with self._lock:
            if self._costs is None:
                path = self._options.costs
                self._costs = CostModel.load(path) if path and os.path.exists(path) else CostModel()
            for compiled, graph in self._observed:
                for kind, seen in _observations(compiled, self._types).items():
                    self._costs.record(graph, seen, kind)
            return self._costs

    def close(self) -> None:
        """Writes the cost model to the file that the options name."""
        if self._options.costs and self._observed:
            self.costs().save(self._options.costs)
        with self._lock:
            self._observed.clear()


def _observations(compiled: Any, types: Mapping[str, str]) -> dict[str, list[Observation]]:
    """The core's measurements of a compiled step, by type of device. Nodes that wait for others are left out."""
    nodes = traced_nodes(compiled)
    kinds = [types[name] for name in compiled.devices]
    found: dict[str, list[Observation]] = {kind: [] for kind in kinds}
    for number, (runs, _, _, steps, median) in compiled.sampled().items():
        node = nodes[number]
        seen = Observation(node.name, node.op, median * 1e-9, runs / steps, steps, tuple(node.members))
        found[kinds[node.part]].append(seen)
    return found


def cost_model(session: BaseSession) -> CostModel:
    """The costs that a session has measured so far, or has read; see `tf.placement.configure`.

    Example:
        >>> config = tf.ConfigProto()
        >>> config.graph_options.build_cost_model = 1
        >>> with tf.Session(config=config) as sess:
        ...     _ = sess.run(tf.random_normal([8]) + 1.0)
        ...     tf.placement.cost_model(sess).num_measured > 0
        True
    """
    return session._engine.costs()
