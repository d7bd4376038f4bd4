"""Building the same nodes twice: the reads and seeds of a function's first call, replayed in a call for a gradient.

A *recording* is made while a function builds its nodes for the first time. It notes the variables that are read, and
lets random numbers come from seeds that are drawn once in a step, so that they can be drawn again. A *replay* gives the
second call the same reads and seeds, in the same scopes: names of variables and layers, devices, containers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from thalweg.graph import dtypes
from thalweg.graph.apply import apply, apply_one, intercepted
from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.graph import Graph
from thalweg.graph.handle_data import handle_data
from thalweg.graph.op_effects import Effect, Flow
from thalweg.graph.operation import Operation
from thalweg.graph.scopes import Scope
from thalweg.graph.tensor import Tensor
from thalweg.state.variable_scope import _open_scopes

# Random ops, and those that give the same numbers for the same seed whenever they run.
_STATELESS = {
    "RandomUniform": "StatelessRandomUniform",
    "RandomStandardNormal": "StatelessRandomNormal",
    "TruncatedNormal": "StatelessTruncatedNormal",
    "RandomUniformInt": "StatelessRandomUniformInt",
}
# Marks the nodes that draw seeds: they run once, and the seeds are used again.
_DRAWN_ONCE = "_drawn_once"
_LAYERS = "layer_names"
# Scopes that decide what a node is and where it runs, beside its name.
_SCOPES = ("devices", "colocation", "container", "attr_map", "gradient_map", "kernel_labels")


class Recording:
    """The variable reads and random seeds of a function's first call."""

    def __init__(self) -> None:
        """Remembers the scopes of this place of the program."""
        graph = get_default_graph()
        self._context = graph._get_control_flow_context()
        self._scopes = {key: getattr(graph._scopes, key) for key in _SCOPES}
        scopes = _open_scopes()
        self._variable_scope, self._opened = scopes.current, dict(scopes.counts)
        self._layers = dict(graph._attachments.get(_LAYERS, ()))
        self._reads: dict[Tensor, Tensor] = {}  # by handle; the value does not change within the function
        self._seeds: list[tuple[str, Tensor]] = []

    @contextmanager
    def recording(self) -> Iterator[None]:
        """A block in which the function is called first."""
        with intercepted(self._record):
            yield

    def _record(self, op_type: str, inputs: tuple[Any, ...], name: str | None, attrs: dict[str, Any]) -> Any:
        # Reads and seeds in a loop or conditional of the function have more than one value: they are not replayed.
        if get_default_graph()._get_control_flow_context() is not self._context:
            return NotImplemented
        if op_type == "ReadVariableOp":
            value = apply(op_type, *inputs, name=name, **attrs)
            self._reads.setdefault(inputs[0], value)
            return value
        if op_type in _STATELESS:
            seeds = {key: attrs.pop(key) for key in ("seed", "seed2") if key in attrs}
            seed = apply_one(
                "RandomUniformInt", np.array([2], np.int32), np.int64(0), np.int64(2**62), name="seed", **seeds
            )
            seed.op.attrs[_DRAWN_ONCE] = True
            self._seeds.append((op_type, seed))
            return _drawn(op_type, inputs, seed, name, attrs)
        return NotImplemented

    @contextmanager
    def replaying(self, after: list[Operation]) -> Iterator[Replay]:
        """A block in which the function is called again; its nodes run after `after`."""
        graph = get_default_graph()
        replay = Replay(self._reads, self._seeds)
        scopes, attachments = _open_scopes(), graph._attachments
        old = scopes.current, scopes.counts, attachments.get(_LAYERS)
        with graph._lock:
            collections = {key: list(items) for key, items in graph._collections.items()}
        scopes.current = self._variable_scope._copy(reuse=True)
        scopes.counts, attachments[_LAYERS] = dict(self._opened), dict(self._layers)
        first = graph._last_id
        try:
            with (
                Scope(graph._scopes, lambda: (self._scopes, None)),
                graph.control_dependencies(after),
                intercepted(replay._replay),
            ):
                yield replay
        finally:
            scopes.current, scopes.counts = old[0], old[1]
            attachments[_LAYERS] = old[2] if old[2] is not None else {}
            _restore_collections(graph, collections)
        _release_constants(graph, first, after)


class Replay:
    """Provides the recorded reads, and the seeds in their order."""

    def __init__(self, reads: dict[Tensor, Tensor], seeds: list[tuple[str, Tensor]]) -> None:
        """Begins with the first seed."""
        self._reads = reads
        self._seeds = iter(seeds)
        self._context = get_default_graph()._get_control_flow_context()
        self.reads: list[tuple[Tensor, Tensor]] = []  # handles of variables, and the tensors that replace their values

    def _replay(self, op_type: str, inputs: tuple[Any, ...], name: str | None, attrs: dict[str, Any]) -> Any:
        if get_default_graph()._get_control_flow_context() is not self._context:
            return NotImplemented
        if op_type == "ReadVariableOp" and inputs[0] in self._reads:
            # The value as it was: the variable may have been changed since.
            value = apply_one("Identity", self._reads[inputs[0]], name=name or "read")
            self.reads.append((inputs[0], value))
            return value
        if op_type not in _STATELESS:
            return NotImplemented
        drawn, seed = next(self._seeds, ("nothing", None))
        if drawn != op_type or seed is None:
            raise ValueError(
                f"recompute_grad: the function does not build the same nodes when it is called again: {op_type} comes "
                f"where {drawn} came before. It must not depend on anything that changes between calls."
            )
        attrs = {key: value for key, value in attrs.items() if key not in ("seed", "seed2")}
        return _drawn(op_type, inputs, apply_one("Identity", seed), name, attrs)


def _drawn(op_type: str, inputs: tuple[Any, ...], seed: Tensor, name: str | None, attrs: dict[str, Any]) -> Any:
    if op_type == "RandomUniformInt":
        attrs = {**attrs, "dtype": attrs.pop("Tout", None)} if "Tout" in attrs else attrs
    shape, *bounds = inputs
    return apply(_STATELESS[op_type], shape, seed, *bounds, name=name, **attrs)


def check_repeatable(operations: list[Operation]) -> None:
    """Refuses operations that would not do the same when they run a second time.

    Raises:
        ValueError: If there are some; names the first.
    """
    for op in operations:
        reason = None
        effect = op.op_def.effect
        if effect is Effect.RANDOM and _DRAWN_ONCE not in op.attrs:
            reason = "draws random numbers that cannot be drawn again"
            if op.type in _STATELESS:
                reason += " inside of its loop or conditional"
        elif effect is Effect.WRITES:
            reason = "changes a variable" if _uses_variable(op) else "adds to a resource, or takes something away"
        elif op.type == "StackPopV2":
            reason = "takes something away"
        if reason is not None:
            raise ValueError(
                f"recompute_grad cannot run operation '{op.name}' ({op.type}) a second time: it {reason}. Compute it "
                "outside of the function, and pass its result as an argument."
            )


def _uses_variable(op: Operation) -> bool:
    return bool(op.inputs) and (op.inputs[0].dtype._is_ref_dtype or handle_data(op.inputs[0]) is not None)


def origin(handle: Tensor) -> Tensor:
    """The original handle of a variable, given one that a loop, a conditional or a function captured."""
    while True:
        op = handle.op
        graph: Any = op.graph
        if op.op_def.flow in (Flow.ENTER, Flow.SWITCH, Flow.FORWARD):
            handle = op.inputs[0]
            continue
        outer = next((o for o, i in getattr(graph, "captures", {}).items() if i is handle), None)
        if outer is None:
            return handle
        handle = outer


def handles_used(operations: list[Operation]) -> list[Tensor]:
    """The handles of variables that operations touch."""
    found = {
        origin(tensor): None for op in operations for tensor in op.inputs if tensor.dtype.base_dtype is dtypes.resource
    }
    return [handle for handle in found if handle.op.type == "VarHandleOp"]


def _restore_collections(graph: Graph, collections: dict[Any, list[Any]]) -> None:
    """Removes the duplicates that the second call has added to collections (losses, updates)."""
    with graph._lock:
        for key, items in graph._collections.items():
            items[:] = collections.get(key, [])


def _release_constants(graph: Graph, first: int, after: list[Operation]) -> None:
    """Constants need not wait: they take no memory, and may be folded. In a loop they wait for its iterations."""
    for op in reversed(graph.get_operations()):
        if op._id < first:
            break
        if op.type == "Const" and op.control_inputs and op._control_flow_context is None:
            op.control_inputs = [each for each in op.control_inputs if each not in after]
