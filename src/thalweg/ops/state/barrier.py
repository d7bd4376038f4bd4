"""Barrier: assembles elements, by key, from components that are inserted one by one."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply, apply_one, apply_op
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import string
from thalweg.graph.op_effects import Effect
from thalweg.graph.operation import Operation
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor, name_of_op
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.state.queues import as_dtypes, as_shapes

_TAKE = (
    "component_types: list(type) >= 1, allow_small_batch: bool = false, wait_for_incomplete: bool = false, "
    "timeout_ms: int = -1"
)


def _insert_shapes(c: ShapeContext) -> list[TensorShape]:
    keys = shapes.with_rank(c.input(1), 1)
    values = shapes.with_rank_at_least(c.input(2), 1)
    if values.ndims is not None:
        shapes.merge(keys, values[:1])
    return []


for _prefix, _handle in (("", "Ref(string)"), ("_Resource", "resource")):
    for _name, _signature, _attrs, _shape, _effect in (
        (
            "Barrier", f"-> handle: {_handle}",
            "component_types: list(type) >= 1, shapes: list(shape) = [], capacity: int = -1, container: string = '', "
            "shared_name: string = ''", shapes.scalar, Effect.CREATES,
        ),
        (
            "BarrierInsertMany", f"handle: {_handle}, keys: string, values: T ->", "T: type, component_index: int",
            _insert_shapes, Effect.WRITES,
        ),
        (
            "BarrierTakeMany",
            f"handle: {_handle}, num_elements: int32 -> indices: int64, keys: string, values: component_types", _TAKE,
            shapes.unknown, Effect.WRITES,
        ),
        (
            "BarrierClose", f"handle: {_handle} ->", "cancel_pending_enqueues: bool = false", shapes.no_outputs,
            Effect.WRITES,
        ),
        ("BarrierReadySize", f"handle: {_handle} -> size: int32", "", shapes.scalar, Effect.READS),
        ("BarrierIncompleteSize", f"handle: {_handle} -> size: int32", "", shapes.scalar, Effect.READS),
    ):  # fmt: skip
        define(f"{_prefix}{_name}", _signature, _attrs, shape=_shape, effect=_effect)
        not_differentiable(f"{_prefix}{_name}")


@export("queue.Barrier")
class Barrier:
    """Assembles elements from components that steps insert under a key; complete elements can be taken.

    Elements leave in the order in which their keys first came. After `close`, no new key is let in; those under way may
    still be completed.

    Example:
        >>> barrier = tf.queue.Barrier((tf.float32, tf.string), shapes=((), ()))
        >>> with tf.Session() as session:
        ...     session.run(barrier.insert_many(0, keys=["a", "b"], values=[1.0, 2.0]))
        ...     session.run(barrier.insert_many(1, keys=["b"], values=["two"]))
        ...     print(session.run(barrier.take_many(1).values))
        [array([2.], dtype=float32), array([b'two'], dtype=object)]
    """

    def __init__(self, types: Any, shapes: Any = None, shared_name: str | None = None, name: str = "barrier") -> None:
        """Creates a barrier.

        Args:
            types: The type of each component.
            shapes: The shape of each component; any if None.
            shared_name: A name under which sessions of the same container find the same barrier.
            name: A name for the operation.

        Raises:
            ValueError: If a shape is not fully defined, or has no elements.
        """
        self._types = as_dtypes(types)
        self._shapes = as_shapes(shapes, self._types, shapes is None, shapes is None)
        for i, shape in enumerate(self._shapes):
            if shape.num_elements() == 0:
                raise ValueError(f"Empty tensors are not supported, but received shape '{shape}' at index {i}")
        self._barrier_ref: Tensor = apply_one(
            "Barrier",
            component_types=self._types,
            shapes=[] if shapes is None else self._shapes,
            shared_name=shared_name or "",
            name=name,
        )
        self._name = name_of_op(self._barrier_ref, type(self).__name__).split("/")[-1]

    @property
    def barrier_ref(self) -> Tensor:
        """The handle."""
        return self._barrier_ref

    @property
    def name(self) -> str:
        """The name of the barrier's op."""
        return name_of_op(self._barrier_ref, type(self).__name__)

    def insert_many(self, component_index: int, keys: Any, values: Any, name: str | None = None) -> Operation:
        """Gives several elements, named by their keys, one of their components.

        Args:
            component_index: Which component.
            keys: A vector of strings.
            values: As many rows.
            name: A name for the operation.
        """
        name = f"{self._name}_BarrierInsertMany" if name is None else name
        if 0 <= component_index < len(self._types):
            values = convert_to_tensor(values, self._types[component_index])
        return apply_op(
            "BarrierInsertMany",
            self._barrier_ref,
            convert_to_tensor(keys, string),
            values,
            component_index=component_index,
            name=name,
        )

    def take_many(
        self, num_elements: Any, allow_small_batch: bool = False, timeout: int | None = None, name: str | None = None
    ) -> Any:
        """Takes complete elements, waiting until there are `num_elements`.

        Args:
            num_elements: How many.
            allow_small_batch: Whether a closed barrier may give fewer.
            timeout: Not supported.
            name: A name for the operation.

        Returns:
            A tuple (indices, keys, values), the last a list with one tensor for each component.
        """
        name = f"{self._name}_BarrierTakeMany" if name is None else name
        taken = apply(
            "BarrierTakeMany",
            self._barrier_ref,
            num_elements,
            component_types=self._types,
            allow_small_batch=allow_small_batch,
            timeout_ms=-1 if timeout is None else timeout,
            name=name,
        )
        count = None if allow_small_batch else constant_value(taken.indices.op.inputs[1])
        rows = TensorShape([None if count is None else int(count)])
        taken.indices.set_shape(rows)
        taken.keys.set_shape(rows)
        for value, shape in zip(taken.values, self._shapes, strict=True):
            value.set_shape(rows.concatenate(shape))
        return taken

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """Accepts no new keys; with `cancel_pending_enqueues`, drops the elements that are not complete."""
        name = f"{self._name}_BarrierClose" if name is None else name
        return apply_op("BarrierClose", self._barrier_ref, cancel_pending_enqueues=cancel_pending_enqueues, name=name)

    def ready_size(self, name: str | None = None) -> Tensor:
        """The number of complete elements."""
        name = f"{self._name}_BarrierReadySize" if name is None else name
        return apply_one("BarrierReadySize", self._barrier_ref, name=name)

    def incomplete_size(self, name: str | None = None) -> Tensor:
        """The number of elements that lack components."""
        name = f"{self._name}_BarrierIncompleteSize" if name is None else name
        return apply_one("BarrierIncompleteSize", self._barrier_ref, name=name)
