"""Queues as ops. `queues.py` has the classes that programs use.

Each op exists twice: on resource handles, which is the form that runs, and on references, as graphs of TensorFlow 1
contain it; `passes/references.py` turns the second into the first.
"""

from __future__ import annotations

from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.op_effects import Effect
from thalweg.graph.tensor_shape import TensorShape

_NAMED = "container: string = '', shared_name: string = ''"
_COMPONENTS = "component_types: list(type) >= 1, shapes: list(shape) = [], capacity: int = -1"
_SHUFFLED = "min_after_dequeue: int = 0, seed: int = 0, seed2: int = 0"
_TIMEOUT = "timeout_ms: int = -1"
_DEQUEUED = f"component_types: list(type) >= 1, {_TIMEOUT}"
_ENQUEUED = f"Tcomponents: list(type) >= 1, {_TIMEOUT}"


def _dequeue_many_shape(c: ShapeContext) -> list[TensorShape]:
    """Unknown shapes: only the queue knows those of its components."""
    shapes.with_rank(c.input(1), 0)
    count = c.constant(1)
    if count is not None and int(count) < 0:
        raise ValueError(f"Input 'n' must be >= 0, but is {int(count)}")
    return [shapes.UNKNOWN] * c.num_outputs


for _version, _handle in (("", "Ref(string)"), ("V2", "resource")):
    for _kind, _attrs in (
        ("FIFOQueue", f"{_COMPONENTS}, {_NAMED}"),
        ("PaddingFIFOQueue", f"{_COMPONENTS}, {_NAMED}"),
        ("RandomShuffleQueue", f"{_COMPONENTS}, {_SHUFFLED}, {_NAMED}"),
        (
            "PriorityQueue",
            f"component_types: list(type) = [], shapes: list(shape), capacity: int = -1, {_NAMED}",
        ),
    ):
        define(f"{_kind}{_version}", f"-> handle: {_handle}", _attrs, shape=shapes.scalar, effect=Effect.CREATES)
        not_differentiable(f"{_kind}{_version}")
    for _name, _signature, _attrs, _shape, _effect in (
        ("Enqueue", "components: Tcomponents ->", _ENQUEUED, shapes.no_outputs, Effect.WRITES),
        ("EnqueueMany", "components: Tcomponents ->", _ENQUEUED, shapes.no_outputs, Effect.WRITES),
        ("Dequeue", "-> components: component_types", _DEQUEUED, shapes.unknown, Effect.WRITES),
        ("DequeueMany", "n: int32 -> components: component_types", _DEQUEUED, _dequeue_many_shape, Effect.WRITES),
        ("DequeueUpTo", "n: int32 -> components: component_types", _DEQUEUED, _dequeue_many_shape, Effect.WRITES),
        ("Close", "->", "cancel_pending_enqueues: bool = false", shapes.no_outputs, Effect.WRITES),
        ("IsClosed", "-> is_closed: bool", "", shapes.scalar, Effect.READS),
        ("Size", "-> size: int32", "", shapes.scalar, Effect.READS),
    ):
        _separator = ", " if not _signature.startswith("->") else " "
        define(
            f"Queue{_name}{_version}",
            f"handle: {_handle}{_separator}{_signature}",
            _attrs,
            shape=_shape,
            effect=_effect,
        )
        not_differentiable(f"Queue{_name}{_version}")

define(
    "_QueuePeek",
    "handle: resource, n: int32, after: Tafter -> coming: dtype",
    "component: int >= 0, Tafter: type, dtype: type",
    shape=lambda c: shapes.ANY_VECTOR,
    effect=Effect.READS,
)
not_differentiable("_QueuePeek")
