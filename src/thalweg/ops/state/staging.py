"""Staging areas: small stores between two parts of a pipeline, first in first out, or by key."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from thalweg.graph.apply import apply, apply_op
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import get_default_graph, name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, not_differentiable
from thalweg.graph.dtypes import DType, int32, int64
from thalweg.graph.op_effects import Effect
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.state.queues import as_dtypes, as_names, as_shapes

_AREA = "capacity: int >= 0 = 0, memory_limit: int >= 0 = 0, dtypes: list(type)"
_NAMED = "container: string = '', shared_name: string = ''"

for _name, _signature, _attrs, _shape, _effect in (
    ("Stage", "values: dtypes ->", f"{_AREA} >= 1, {_NAMED}", shapes.no_outputs, Effect.WRITES),
    ("Unstage", "-> values: dtypes", f"{_AREA} >= 1, {_NAMED}", shapes.unknown, Effect.WRITES),
    ("StagePeek", "index: int32 -> values: dtypes", f"{_AREA} >= 1, {_NAMED}", shapes.unknown, Effect.READS),
    ("StageSize", "-> size: int32", f"{_AREA}, {_NAMED}", shapes.scalar, Effect.READS),
    ("StageClear", "->", f"{_AREA}, {_NAMED}", shapes.no_outputs, Effect.WRITES),
    *(
        (f"{_family}{_name}", _signature, _attrs, _shape, _effect)
        for _family in ("Map", "OrderedMap")
        for _name, _signature, _attrs, _shape, _effect in (
            (
                "Stage", "key: int64, indices: int32, values: fake_dtypes ->",
                f"{_AREA}, fake_dtypes: list(type) >= 1, {_NAMED}", shapes.no_outputs, Effect.WRITES,
            ),
            (
                "Unstage", "key: int64, indices: int32 -> values: dtypes", f"{_AREA} >= 1, {_NAMED}", shapes.unknown,
                Effect.WRITES,
            ),
            (
                "Peek", "key: int64, indices: int32 -> values: dtypes", f"{_AREA} >= 1, {_NAMED}", shapes.unknown,
                Effect.READS,
            ),
            (
                "UnstageNoKey", "indices: int32 -> key: int64, values: dtypes", f"{_AREA} >= 1, {_NAMED}",
                shapes.unknown, Effect.WRITES,
            ),
            ("Size", "-> size: int32", f"{_AREA}, {_NAMED}", shapes.scalar, Effect.READS),
            ("IncompleteSize", "-> size: int32", f"{_AREA}, {_NAMED}", shapes.scalar, Effect.READS),
            ("Clear", "->", f"{_AREA}, {_NAMED}", shapes.no_outputs, Effect.WRITES),
        )
    ),
):  # fmt: skip
    define(_name, _signature, _attrs, shape=_shape, effect=_effect)
    not_differentiable(_name)


class BaseStagingArea:
    """The base class of staging areas."""

    def __init__(
        self,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        capacity: int = 0,
        memory_limit: int = 0,
    ) -> None:
        """Declares an area; its first op makes it.

        Args:
            dtypes: The type of each component.
            shapes: The shape of each component, as far as it is known.
            names: A name for each component; elements are then dictionaries.
            shared_name: The name by which ops find the area; one of its own if None.
            capacity: The most elements it holds; 0 for any number.
            memory_limit: The most bytes it holds; 0 for any number.

        Raises:
            ValueError: If numbers of names or shapes are wrong, or a limit is negative.
        """
        if capacity < 0 or memory_limit < 0:
            raise ValueError(f"capacity and memory_limit must not be negative, got {capacity} and {memory_limit}.")
        self._name = get_default_graph().unique_name(type(self).__name__) if shared_name is None else shared_name
        self._dtypes = as_dtypes(dtypes)
        self._shapes = as_shapes(shapes, self._dtypes, unknown_dim_allowed=True, unknown_rank_allowed=True)
        self._names = as_names(names, self._dtypes)
        self._capacity = capacity
        self._memory_limit = memory_limit
        # The area is found by name, on one device: all its ops are where it was declared.
        with name_scope(f"{self._name}_root"):
            self._root: Operation = apply_op("NoOp")

    @property
    def name(self) -> str:
        """The name of the area."""
        return self._name

    @property
    def dtypes(self) -> list[DType]:
        """The types of the components."""
        return self._dtypes

    @property
    def shapes(self) -> list[TensorShape]:
        """The shapes of the components."""
        return self._shapes

    @property
    def names(self) -> list[str] | None:
        """The names of the components, None if they have none."""
        return self._names

    @property
    def capacity(self) -> int:
        """The most elements, 0 for any number."""
        return self._capacity

    @property
    def memory_limit(self) -> int:
        """The most bytes, 0 for any number."""
        return self._memory_limit

    def _apply(self, op: str, *inputs: Any, name: str, dtypes: Any = None, **attrs: Any) -> Any:
        graph = get_default_graph()
        with graph.colocate_with(self._root) if graph is self._root.graph else nullcontext():
            return apply(
                op,
                *inputs,
                dtypes=self._dtypes if dtypes is None else dtypes,
                capacity=self._capacity,
                memory_limit=self._memory_limit,
                shared_name=self._name,
                name=name,
                **attrs,
            )

    def _positions(self, indices: Any) -> list[int]:
        """Names or numbers of components as numbers; of all if None."""
        if indices is None:
            return list(range(len(self._dtypes)))
        positions = []
        for index in indices if isinstance(indices, (list, tuple)) else [indices]:
            if isinstance(index, str):
                if self._names is None or index not in self._names:
                    raise ValueError(f"'{index}' is not among the names of the staging area: {self._names}")
                index = self._names.index(index)
            if not 0 <= index < len(self._dtypes):
                raise ValueError(f"Index {index} is out of bounds for a staging area of {len(self._dtypes)} components")
            positions.append(int(index))
        return positions

    def _check_put(self, vals: Any, indices: Any = None) -> tuple[list[Tensor], list[int]]:
        """The tensors to put, and the components that they are.

        Raises:
            ValueError: If names, numbers or shapes do not fit.
        """
        if isinstance(vals, dict):
            if not self._names:
                raise ValueError("Staging areas must have names to enqueue a dictionary")
            if not set(vals).issubset(self._names):
                raise ValueError(
                    f"Keys in dictionary to put do not match names of staging area. Dictionary: {sorted(vals)}, "
                    f"Queue: {sorted(self._names)}"
                )
            indices = [name for name in self._names if name in vals]
            values = [vals[name] for name in indices]
        elif self._names:
            raise ValueError("You must enqueue a dictionary in a staging area with names")
        else:
            values = list(vals) if isinstance(vals, (list, tuple)) else [vals]
        positions = self._positions(indices)
        if len(values) != len(positions):
            raise ValueError(f"Expected {len(positions)} values to put into the staging area, got {len(values)}.")
        tensors = []
        for i, value in zip(positions, values, strict=True):
            tensor = convert_to_tensor(value, self._dtypes[i], name=f"component_{i}")
            tensor.shape.assert_is_compatible_with(self._shapes[i])
            tensors.append(tensor)
        return tensors, positions

    def _result(self, tensors: Any, positions: list[int]) -> Any:
        tensors = list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]
        for i, tensor in zip(positions, tensors, strict=True):
            tensor.set_shape(self._shapes[i])
        if self._names:
            return {self._names[i]: tensor for i, tensor in zip(positions, tensors, strict=True)}
        return tensors


@export("contrib.staging.StagingArea", "queue.StagingArea")
class StagingArea(BaseStagingArea):
    """A store of elements, first in, first out, for a pipeline whose parts run in the same step or in different ones.

    Example:
        >>> area = tf.contrib.staging.StagingArea([tf.float32], shapes=[[]])
        >>> put, (value,) = area.put([tf.constant(3.0)]), area.get()
        >>> with tf.Session() as session:
        ...     session.run(put)
        ...     print(session.run(value))
        3.0
    """

    def put(self, values: Any, name: str | None = None) -> Operation:
        """Adds an element, waiting while the area is full.

        Args:
            values: A list of one tensor for each component, one tensor, or a dictionary if the components have names.
            name: A name for the operation.
        """
        with name_scope(name, f"{self._name}_put") as scope:
            tensors, positions = self._check_put(values)
            if len(positions) != len(self._dtypes):
                raise ValueError(f"Expected all components of a staging area: {self._names}, got {sorted(values)}.")
            op: Operation = self._apply("Stage", tensors, name=scope)
        return op

    def get(self, name: str | None = None) -> Any:
        """Takes the first element, waiting for one: a list of tensors, or a dictionary if the components have names."""
        name = f"{self._name}_get" if name is None else name
        return self._result(self._apply("Unstage", name=name), self._positions(None))

    def peek(self, index: Any, name: str | None = None) -> Any:
        """The element at a place, waiting until there is one; it stays in the area."""
        name = f"{self._name}_peek" if name is None else name
        return self._result(self._apply("StagePeek", index, name=name), self._positions(None))

    def size(self, name: str | None = None) -> Tensor:
        """The number of elements."""
        result: Tensor = self._apply("StageSize", name=f"{self._name}_size" if name is None else name)
        return result

    def clear(self, name: str | None = None) -> Operation:
        """Drops all elements."""
        op: Operation = self._apply("StageClear", name=f"{self._name}_clear" if name is None else name)
        return op


@export("contrib.staging.MapStagingArea", "queue.MapStagingArea")
class MapStagingArea(BaseStagingArea):
    """A store of elements by key, whose components may come, and leave, one by one."""

    def __init__(
        self,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        ordered: bool = False,
        capacity: int = 0,
        memory_limit: int = 0,
    ) -> None:
        """Declares an area; see StagingArea. With `ordered`, `get` without a key gives the smallest."""
        super().__init__(dtypes, shapes, names, shared_name, capacity, memory_limit)
        self._family = "OrderedMap" if ordered else "Map"

    def put(self, key: Any, vals: Any, indices: Any = None, name: str | None = None) -> Operation:
        """Adds components of the element under a key.

        Args:
            key: An int64 scalar.
            vals: The components: a list of tensors, or a dictionary if they have names.
            indices: Which components a list holds; all if None.
            name: A name for the operation.
        """
        with name_scope(name, f"{self._name}_put") as scope:
            tensors, positions = self._check_put(vals, indices)
            op: Operation = self._apply(
                f"{self._family}Stage", _as_key(key), convert_to_tensor(positions, int32), tensors, name=scope
            )
        return op

    def get(self, key: Any = None, indices: Any = None, name: str | None = None) -> Any:
        """Takes components of a complete element, waiting for it.

        Args:
            key: Its key; that of any element if None.
            indices: Which components; all if None. The element is gone when the last one is taken.
            name: A name for the operation.

        Returns:
            The components; without a key, a tuple of the key and them.
        """
        positions = self._positions(indices)
        types = [self._dtypes[i] for i in positions]
        name = f"{self._name}_get" if name is None else name
        wanted = convert_to_tensor(positions, int32)
        if key is not None:
            taken = self._apply(f"{self._family}Unstage", _as_key(key), wanted, name=name, dtypes=types)
            return self._result(taken, positions)
        if len(positions) != len(self._dtypes):
            raise ValueError("Without a key, all components of an element are taken.")
        found, values = self._apply(f"{self._family}UnstageNoKey", wanted, name=name)
        found.set_shape([])
        return found, self._result(values, positions)

    def peek(self, key: Any, indices: Any = None, name: str | None = None) -> Any:
        """Components of a complete element, waiting for it; it stays in the area."""
        positions = self._positions(indices)
        types = [self._dtypes[i] for i in positions]
        name = f"{self._name}_peek" if name is None else name
        wanted = convert_to_tensor(positions, int32)
        return self._result(
            self._apply(f"{self._family}Peek", _as_key(key), wanted, name=name, dtypes=types), positions
        )

    def size(self, name: str | None = None) -> Tensor:
        """The number of complete elements."""
        result: Tensor = self._apply(f"{self._family}Size", name=f"{self._name}_size" if name is None else name)
        return result

    def incomplete_size(self, name: str | None = None) -> Tensor:
        """The number of elements that lack components."""
        name = f"{self._name}_incomplete_size" if name is None else name
        result: Tensor = self._apply(f"{self._family}IncompleteSize", name=name)
        return result

    def clear(self, name: str | None = None) -> Operation:
        """Drops all elements."""
        op: Operation = self._apply(f"{self._family}Clear", name=f"{self._name}_clear" if name is None else name)
        return op


def _as_key(key: Any) -> Tensor:
    return convert_to_tensor(key, int64)
