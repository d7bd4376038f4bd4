"""Queues: tensors that wait, in order or shuffled, between the steps that make them and the steps that use them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from thalweg.graph.apply import apply_list, apply_one, apply_op
from thalweg.graph.composite import SparseTensor
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import get_seed, name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import DType, as_dtype, int64
from thalweg.graph.operation import Operation
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor, name_of_op
from thalweg.graph.tensor_shape import TensorShape, as_shape

Components = Tensor | list[Tensor] | dict[str, Tensor]


def as_dtypes(dtypes: Any) -> list[DType]:
    """One type, or several, as a list."""
    return [as_dtype(dtype) for dtype in (dtypes if isinstance(dtypes, (list, tuple)) else [dtypes])]


def as_shapes(
    shapes: Any, dtypes: Sequence[DType], unknown_dim_allowed: bool = False, unknown_rank_allowed: bool = False
) -> list[TensorShape]:
    """The shapes of components as a list, one for each type; all unknown if `shapes` is None.

    Raises:
        ValueError: If their number is wrong, or one is less known than it has to be.
    """
    if shapes is None:
        return [TensorShape(None)] * len(dtypes)
    if not isinstance(shapes, (list, tuple)) or (len(dtypes) == 1 and _is_one_shape(shapes)):
        shapes = [shapes]
    result = [as_shape(shape) for shape in shapes]
    if len(result) != len(dtypes):
        raise ValueError(
            f"Queue shapes must have the same length as dtypes, received len(shapes)={len(result)}, "
            f"len(dtypes)={len(dtypes)}"
        )
    if not unknown_dim_allowed and not all(shape.is_fully_defined() for shape in result):
        raise ValueError(f"All shapes must be fully defined: {result}")
    if not unknown_rank_allowed and any(shape.dims is None for shape in result):
        raise ValueError(f"All shapes must have a defined rank: {result}")
    return result


def _is_one_shape(shapes: Any) -> bool:
    """Whether a sequence is itself the shape of the only component, as in `shapes=(2, 3)`."""
    return isinstance(shapes, tuple) and all(isinstance(dim, int) for dim in shapes)


def as_names(names: Any, dtypes: Sequence[DType]) -> list[str] | None:
    """The names of components; None if they have none."""
    if not names:
        return None
    result: list[str] = list(names) if isinstance(names, (list, tuple)) else [names]
    if len(result) != len(dtypes):
        raise ValueError(
            f"List of names must have the same length as the list of dtypes, received len(names)={len(result)},"
            f"len(dtypes)={len(dtypes)}"
        )
    return result


def common_shape(a: TensorShape, b: TensorShape) -> TensorShape:
    """The most specific shape that fits both."""
    if a.ndims is None or a.ndims != b.ndims:
        return TensorShape(None)
    x, y = a.dims_tuple, b.dims_tuple
    assert x is not None
    assert y is not None
    return TensorShape._of(tuple(p if p == q else None for p, q in zip(x, y, strict=True)))


@export("QueueBase", "queue.QueueBase", "io.QueueBase")
class QueueBase:
    """The base class of queues.

    An element is a tuple of tensors. Steps that enqueue wait while the queue is full, steps that dequeue while it has
    too few elements; a step that waits holds no thread. A closed queue refuses enqueues with CancelledError, and
    dequeues that it can no longer serve with OutOfRangeError.
    """

    def __init__(self, dtypes: Any, shapes: Any, names: Any, queue_ref: Tensor) -> None:
        """Wraps a handle; programs use the subclasses.

        Args:
            dtypes: The types of the components.
            shapes: Their shapes; None if they can be anything.
            names: Their names; None if they have none.
            queue_ref: The handle.
        """
        self._dtypes: list[DType] = dtypes
        if shapes is not None:
            if len(shapes) != len(dtypes):
                raise ValueError(
                    f"Queue shapes must have the same length as dtypes, received len(shapes)={len(shapes)}, "
                    f"len(dtypes)={len(dtypes)}"
                )
            self._shapes: list[TensorShape] = [as_shape(shape) for shape in shapes]
        else:
            self._shapes = [TensorShape(None)] * len(dtypes)
        self._names = as_names(names, dtypes)
        self._queue_ref = queue_ref
        self._name = name_of_op(queue_ref, type(self).__name__).split("/")[-1]

    @staticmethod
    def from_list(index: Any, queues: Any) -> QueueBase:
        """A queue that stands for `queues[index]`, in each step anew.

        Args:
            index: A scalar integer tensor.
            queues: Queues with the same types and names of components.

        Raises:
            TypeError: If `queues` is not a list of queues, or the types differ.
            ValueError: If the names differ.
        """
        if not queues or not isinstance(queues, list) or not all(isinstance(q, QueueBase) for q in queues):
            raise TypeError("A list of queues expected")
        first = queues[0]
        if any(q.dtypes != first.dtypes for q in queues):
            raise TypeError("Queues do not have matching component dtypes.")
        if any(q.names != first.names for q in queues):
            raise TypeError("Queues do not have matching component names.")
        shapes = first.shapes
        for queue in queues[1:]:
            shapes = [common_shape(a, b) for a, b in zip(shapes, queue.shapes, strict=True)]
        handles = apply_one("Pack", [queue.queue_ref for queue in queues], axis=0)
        selected = apply_one("GatherV2", handles, index, 0, batch_dims=0)
        return QueueBase(first.dtypes, shapes, first.names, selected)

    @property
    def queue_ref(self) -> Tensor:
        """The handle."""
        return self._queue_ref

    @property
    def name(self) -> str:
        """The name of the queue's op."""
        return name_of_op(self._queue_ref, type(self).__name__)

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

    def _as_list(self, vals: Any) -> list[Any]:
        if isinstance(vals, dict):
            if not self._names:
                raise ValueError("Queue must have names to enqueue a dictionary")
            if sorted(self._names, key=str) != sorted(vals, key=str):
                raise ValueError(
                    f"Keys in dictionary to enqueue do not match names of Queue.  Dictionary: "
                    f"{sorted(vals, key=str)},Queue: {sorted(self._names, key=str)}"
                )
            return [vals[name] for name in self._names]
        if self._names:
            raise ValueError("You must enqueue a dictionary in a Queue with names")
        values = list(vals) if isinstance(vals, (list, tuple)) else [vals]
        if len(values) != len(self._dtypes):
            raise ValueError(
                f"Queue '{self._name}' has {len(self._dtypes)} components, got {len(values)} to enqueue: {vals}. "
                "A single component that is itself a list must be put into another list."
            )
        return values

    def _components(self, vals: Any) -> list[Tensor]:
        values = self._as_list(vals)
        if any(isinstance(value, SparseTensor) for value in values):
            raise TypeError("A queue holds dense tensors; serialize a SparseTensor with tf.serialize_sparse first.")
        return [
            convert_to_tensor(value, dtype, name=f"component_{i}")
            for i, (value, dtype) in enumerate(zip(values, self._dtypes, strict=True))
        ]

    def _result(self, tensors: list[Tensor]) -> Components:
        """The result of a dequeue: a dictionary, one tensor, or a list."""
        if self._names:
            return dict(zip(self._names, tensors, strict=True))
        return tensors[0] if len(tensors) == 1 else tensors

    def enqueue(self, vals: Any, name: str | None = None) -> Operation:
        """Adds one element, waiting while the queue is full.

        Args:
            vals: A tensor, a list or tuple of one for each component, or a dictionary if the components have names.
            name: A name for the operation.

        Raises:
            ValueError: If number, names or shapes do not fit.
        """
        with name_scope(name, f"{self._name}_enqueue") as scope:
            tensors = self._components(vals)
            for tensor, shape in zip(tensors, self._shapes, strict=True):
                tensor.shape.assert_is_compatible_with(shape)
            op = apply_op("QueueEnqueueV2", self._queue_ref, tensors, name=scope)
        return op

    def enqueue_many(self, vals: Any, name: str | None = None) -> Operation:
        """Adds one element for each row of the tensors, in order, waiting whenever the queue is full.

        Args:
            vals: As for `enqueue`, with an additional first dimension, of the same size in all components.
            name: A name for the operation.

        Raises:
            ValueError: If number, names or shapes do not fit.
        """
        with name_scope(name, f"{self._name}_EnqueueMany") as scope:
            tensors = self._components(vals)
            rows = TensorShape([None])
            for tensor, shape in zip(tensors, self._shapes, strict=True):
                tensor.shape.with_rank_at_least(1)[:1].assert_is_compatible_with(rows)
                if tensor.shape.ndims is not None:
                    rows = rows.merge_with(tensor.shape[:1])
                    tensor.shape[1:].assert_is_compatible_with(shape)
            op = apply_op("QueueEnqueueManyV2", self._queue_ref, tensors, name=scope)
        return op

    def dequeue(self, name: str | None = None) -> Components:
        """Takes one element, waiting while there is none.

        Returns:
            A tensor, a list of one for each component, or a dictionary if the components have names.
        """
        name = f"{self._name}_Dequeue" if name is None else name
        tensors = _tensor_list(apply_list("QueueDequeueV2", self._queue_ref, component_types=self._dtypes, name=name))
        for tensor, shape in zip(tensors, self._shapes, strict=True):
            tensor.set_shape(shape)
        return self._result(tensors)

    def dequeue_many(self, n: Any, name: str | None = None) -> Components:
        """Takes `n` elements as rows of one tensor per component, waiting while there are fewer.

        If the queue is closed with fewer than `n` elements in it, they stay there, and the step fails with
        OutOfRangeError.
        """
        name = f"{self._name}_DequeueMany" if name is None else name
        tensors = _tensor_list(
            apply_list("QueueDequeueManyV2", self._queue_ref, n, component_types=self._dtypes, name=name)
        )
        count = constant_value(tensors[0].op.inputs[1])
        self._set_batch_shapes(tensors, None if count is None else int(count))
        return self._result(tensors)

    def dequeue_up_to(self, n: Any, name: str | None = None) -> Components:
        """As `dequeue_many`; but a closed queue gives its last elements, and fails only when it is empty."""
        name = f"{self._name}_DequeueUpTo" if name is None else name
        tensors = _tensor_list(
            apply_list("QueueDequeueUpToV2", self._queue_ref, n, component_types=self._dtypes, name=name)
        )
        self._set_batch_shapes(tensors, None)
        return self._result(tensors)

    def _set_batch_shapes(self, tensors: list[Tensor], rows: int | None) -> None:
        for tensor, shape in zip(tensors, self._shapes, strict=True):
            tensor.set_shape(TensorShape([rows]).concatenate(shape))

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """Closes the queue: it takes no more elements, and gives those that it has.

        Args:
            cancel_pending_enqueues: Whether steps that wait to enqueue fail, instead of being served first.
            name: A name for the operation.
        """
        name = f"{self._name}_Close" if name is None else name
        return apply_op("QueueCloseV2", self._queue_ref, cancel_pending_enqueues=cancel_pending_enqueues, name=name)

    def is_closed(self, name: str | None = None) -> Tensor:
        """Whether the queue is closed."""
        name = f"{self._name}_Is_Closed" if name is None else name
        return apply_one("QueueIsClosedV2", self._queue_ref, name=name)

    def size(self, name: str | None = None) -> Tensor:
        """The number of elements in the queue."""
        name = f"{self._name}_Size" if name is None else name
        return apply_one("QueueSizeV2", self._queue_ref, name=name)


def _tensor_list(tensors: Any) -> list[Tensor]:
    return list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]


@export("FIFOQueue", "queue.FIFOQueue")
class FIFOQueue(QueueBase):
    """A queue that gives elements in the order in which it got them.

    Example:
        >>> queue = tf.FIFOQueue(10, tf.int32, shapes=[[]])
        >>> with tf.Session() as session:
        ...     session.run(queue.enqueue_many([[1, 2, 3]]))
        ...     print(session.run(queue.dequeue_many(2)), session.run(queue.size()))
        [1 2] 1
    """

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "fifo_queue",
    ) -> None:
        """Creates a queue.

        Args:
            capacity: The most elements that it holds; negative for any number.
            dtypes: The type of each component.
            shapes: The shape of each component, fully defined; needed for `dequeue_many`.
            names: A name for each component; elements are then dictionaries.
            shared_name: A name under which sessions of the same container find the same queue.
            name: A name for the operation.
        """
        types = as_dtypes(dtypes)
        declared = as_shapes(shapes, types, unknown_dim_allowed=shapes is None, unknown_rank_allowed=shapes is None)
        handle = apply_one(
            "FIFOQueueV2",
            component_types=types,
            shapes=[] if shapes is None else declared,
            capacity=capacity,
            shared_name=shared_name or "",
            name=name,
        )
        super().__init__(types, declared, as_names(names, types), handle)


@export("RandomShuffleQueue", "queue.RandomShuffleQueue", "io.RandomShuffleQueue")
class RandomShuffleQueue(QueueBase):
    """A queue that gives its elements in random order."""

    def __init__(
        self,
        capacity: int,
        min_after_dequeue: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        seed: int | None = None,
        shared_name: str | None = None,
        name: str = "random_shuffle_queue",
    ) -> None:
        """Creates a queue.

        Args:
            capacity: The most elements that it holds; negative for any number.
            min_after_dequeue: How many stay in it after a dequeue, to be mixed with later ones, until it is closed.
            dtypes: The type of each component.
            shapes: The shape of each component, fully defined; needed for `dequeue_many`.
            names: A name for each component; elements are then dictionaries.
            seed: Makes the order repeatable; see `tf.set_random_seed`.
            shared_name: A name under which sessions of the same container find the same queue.
            name: A name for the operation.
        """
        types = as_dtypes(dtypes)
        declared = as_shapes(shapes, types, unknown_dim_allowed=shapes is None, unknown_rank_allowed=shapes is None)
        seed1, seed2 = get_seed(seed)
        if seed1 is None or seed2 is None:
            seed1, seed2 = 0, 0
        elif seed is None and shared_name is not None:
            # Every node that shares the queue must derive the same seeds, independent of its position in its graph.
            digest = hashlib.md5((str(seed1) + shared_name).encode(), usedforsecurity=False).hexdigest()
            seed2 = int(digest[:8], 16) & 0x7FFFFFFF
        handle = apply_one(
            "RandomShuffleQueueV2",
            component_types=types,
            shapes=[] if shapes is None else declared,
            capacity=capacity,
            min_after_dequeue=min_after_dequeue,
            seed=seed1,
            seed2=seed2,
            shared_name=shared_name or "",
            name=name,
        )
        super().__init__(types, declared, as_names(names, types), handle)


@export("PaddingFIFOQueue", "queue.PaddingFIFOQueue", "io.PaddingFIFOQueue")
class PaddingFIFOQueue(QueueBase):
    """A FIFOQueue of elements that differ in size: `dequeue_many` pads them with zeros to the size of the largest.

    Example:
        >>> queue = tf.PaddingFIFOQueue(10, [tf.int32], shapes=[[None]])
        >>> with tf.Session() as session:
        ...     session.run([queue.enqueue([[1, 2, 3]]), queue.enqueue([[4]])])
        ...     print(sorted(session.run(queue.dequeue_many(2)).tolist()))
        [None, None]
        [[1, 2, 3], [4, 0, 0]]
    """

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "padding_fifo_queue",
    ) -> None:
        """Creates a queue.

        Args:
            capacity: The most elements that it holds; negative for any number.
            dtypes: The type of each component.
            shapes: The shape of each component, of known rank; None for a dimension that varies.
            names: A name for each component; elements are then dictionaries.
            shared_name: A name under which sessions of the same container find the same queue.
            name: A name for the operation.
        """
        types = as_dtypes(dtypes)
        if shapes is None or (isinstance(shapes, (list, tuple)) and any(shape is None for shape in shapes)):
            raise ValueError("When providing partial shapes, a list of shapes must be provided.")
        declared = as_shapes(shapes, types, unknown_dim_allowed=True)
        handle = apply_one(
            "PaddingFIFOQueueV2",
            component_types=types,
            shapes=declared,
            capacity=capacity,
            shared_name=shared_name or "",
            name=name,
        )
        super().__init__(types, declared, as_names(names, types), handle)


@export("PriorityQueue", "queue.PriorityQueue", "io.PriorityQueue")
class PriorityQueue(QueueBase):
    """A queue that gives the element with the smallest priority first; an int64 priority precedes the components."""

    def __init__(
        self,
        capacity: int,
        types: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "priority_queue",
    ) -> None:
        """Creates a queue.

        Args:
            capacity: The most elements that it holds; negative for any number.
            types: The type of each component besides the priority.
            shapes: The shape of each of them, fully defined; needed for `dequeue_many`.
            names: A name for the priority and for each component; elements are then dictionaries.
            shared_name: A name under which sessions of the same container find the same queue.
            name: A name for the operation.
        """
        given = as_dtypes(types)
        declared = as_shapes(shapes, given, unknown_dim_allowed=shapes is None, unknown_rank_allowed=shapes is None)
        handle = apply_one(
            "PriorityQueueV2",
            component_types=given,
            shapes=[] if shapes is None else declared,
            capacity=capacity,
            shared_name=shared_name or "",
            name=name,
        )
        super().__init__([int64, *given], [TensorShape([]), *declared], names, handle)
