"""Batching through queues: single examples go into a queue on the threads of a queue runner, batches come out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from thalweg.control_flow.cond import cond
from thalweg.graph.apply import apply_list, apply_one
from thalweg.graph.composite import SparseTensor
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.dtypes import DType, int32
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.array.constants import no_op
from thalweg.ops.sparse.serialization import deserialize_many_sparse, serialize_many_sparse, serialize_sparse
from thalweg.ops.state.queues import FIFOQueue, PaddingFIFOQueue, QueueBase, RandomShuffleQueue, common_shape
from thalweg.train.input.input_producers import summarize_filling
from thalweg.train.input.queue_runner import QueueRunner, add_queue_runner

# Makes the queue for components of these types and shapes.
QueueMaker = Callable[[list[DType], list[TensorShape]], QueueBase]


def as_list(tensors: Any) -> list[Any]:
    """The tensors of one example, in the order in which they are enqueued."""
    if isinstance(tensors, dict):
        return [tensors[key] for key in sorted(tensors, key=str)]
    return list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]


def as_lists(tensors_list: Sequence[Any]) -> list[list[Any]]:
    """The tensors of several examples.

    Raises:
        ValueError: If there are none, or they differ in their keys.
    """
    if not tensors_list:
        raise ValueError("Expected at least one set of tensors")
    first = tensors_list[0]
    if isinstance(first, dict):
        if any(not isinstance(each, dict) or each.keys() != first.keys() for each in tensors_list):
            raise ValueError("All dictionaries in tensors_list must have the same keys")
    elif any(len(as_list(each)) != len(as_list(first)) for each in tensors_list):
        raise ValueError(
            f"All sets of tensors must have the same length, got {[len(as_list(each)) for each in tensors_list]}"
        )
    return [as_list(tensors) for tensors in tensors_list]


def _packed_like(original: Any, dequeued: list[Any]) -> Any:
    """The dequeued tensors in the structure of the caller's: a dictionary, a single tensor, or a list."""
    if isinstance(original, dict):
        return dict(zip(sorted(original, key=str), dequeued, strict=True))
    return dequeued[0] if len(dequeued) == 1 else dequeued


class _Component:
    """One component of the examples: sparse tensors are serialized into the queue, and deserialized after it."""

    def __init__(self, values: list[Any], enqueue_many: bool) -> None:
        self.sparse_dtype: DType | None = None
        self.rank: int | None = None
        if not any(isinstance(value, SparseTensor) for value in values):
            self.tensors = [convert_to_tensor(value) for value in values]
            return
        if not all(isinstance(value, SparseTensor) for value in values):
            raise TypeError("A component must be sparse in all sets of tensors, or in none.")
        types = {value.dtype for value in values}
        if len(types) > 1:
            raise TypeError(f"Expected types to be consistent: {' vs. '.join(sorted(t.name for t in types))}.")
        self.sparse_dtype = types.pop()
        ranks = {value.get_shape().ndims for value in values}
        if len(ranks) == 1 and (rank := ranks.pop()) is not None:
            self.rank = rank - 1 if enqueue_many else rank
        serialize = serialize_many_sparse if enqueue_many else serialize_sparse
        self.tensors = [serialize(value) for value in values]

    def restore(self, tensor: Tensor) -> Any:
        if self.sparse_dtype is None:
            return tensor
        return deserialize_many_sparse(tensor, self.sparse_dtype, rank=self.rank)

    @property
    def dtype(self) -> DType:
        types = [tensor.dtype.base_dtype for tensor in self.tensors]
        for other in types[1:]:
            if other != types[0]:
                raise TypeError(f"Expected types to be consistent: {types[0].name} vs. {other.name}.")
        return types[0]

    def shape(self, enqueue_many: bool) -> TensorShape:
        for tensor in self.tensors:
            if tensor.shape.ndims is None:
                raise ValueError(f"Cannot infer Tensor's rank: {tensor}")
        shapes = [tensor.shape.with_rank_at_least(1)[1:] if enqueue_many else tensor.shape for tensor in self.tensors]
        return functools.reduce(common_shape, shapes)


def _as_keep_input(keep_input: Any, enqueue_many: bool) -> Tensor:
    tensor = convert_to_tensor(keep_input)
    ndims = tensor.shape.ndims
    if ndims is None:
        raise ValueError("`keep_input` dimensions must be known at graph construction.")
    if not enqueue_many and ndims == 1:
        raise ValueError("`keep_input` cannot be a vector when `enqueue_many=False`.")
    if ndims > 1:
        raise ValueError("`keep_input` must be 0 or 1 dimensions.")
    return tensor


def _enqueue(queue: QueueBase, tensors: list[Tensor], enqueue_many: bool, keep_input: Tensor) -> Any:
    put = queue.enqueue_many if enqueue_many else queue.enqueue
    if keep_input.shape.ndims == 1:
        partition = apply_one("Cast", keep_input, DstT=int32)
        return put([apply_list("DynamicPartition", tensor, partition, num_partitions=2)[1] for tensor in tensors])
    known = constant_value(keep_input)
    if known is not None:
        return put(tensors) if bool(known) else no_op()
    return cond(keep_input, lambda: put(tensors), no_op)


def batch_through_queue(
    tensors_list: Sequence[Any],
    make_queue: QueueMaker,
    batch_size: Any,
    keep_input: Any,
    num_threads: int,
    enqueue_many: bool,
    shapes: Any,
    allow_smaller_final_batch: bool,
    summarize: Callable[[QueueBase], None],
    name: str | None,
    default_name: str,
) -> Any:
    """The graph behind all batching functions.

    Args:
        tensors_list: Sets of tensors, each enqueued by an operation, and threads, of its own.
        make_queue: Makes the queue.
        batch_size: The number of examples in a batch.
        keep_input: Whether to enqueue: a boolean scalar, or a vector, one for each row, if `enqueue_many`.
        num_threads: How many threads run each enqueue operation.
        enqueue_many: Whether the tensors hold several examples, one per row.
        shapes: The shapes of the components; those of the tensors if None.
        allow_smaller_final_batch: Whether the last batch may be smaller.
        summarize: Adds the summary of how full the queue is.
        name: A name scope.
        default_name: The name scope if `name` is None.
    """
    lists = as_lists(tensors_list)
    with name_scope(name, default_name, [value for values in lists for value in values] + [keep_input]) as scope:
        if not lists[0]:
            raise ValueError("Expected at least one tensor in batch().")
        keep = _as_keep_input(keep_input, enqueue_many)
        components = [_Component(list(values), enqueue_many) for values in zip(*lists, strict=True)]
        types = [component.dtype for component in components]
        if shapes is None:
            shapes = [component.shape(enqueue_many) for component in components]
        queue = make_queue(types, shapes)
        sets = zip(*(component.tensors for component in components), strict=True)
        operations = [_enqueue(queue, list(tensors), enqueue_many, keep) for tensors in sets]
        add_queue_runner(QueueRunner(queue, operations * num_threads))
        summarize(queue)
        take = queue.dequeue_up_to if allow_smaller_final_batch else queue.dequeue_many
        taken: Any = take(batch_size, name=scope)
        dequeued = taken if isinstance(taken, list) else [taken]
        restored = [component.restore(tensor) for component, tensor in zip(components, dequeued, strict=True)]
        return _packed_like(tensors_list[0], restored)


def in_order(
    tensors_list: Sequence[Any],
    batch_size: Any,
    keep_input: Any,
    num_threads: int,
    capacity: int,
    enqueue_many: bool,
    shapes: Any,
    dynamic_pad: bool,
    allow_smaller_final_batch: bool,
    shared_name: str | None,
    name: str | None,
    default_name: str,
) -> Any:
    """Batches in the order in which examples arrive; see `batch_through_queue`."""

    def make_queue(types: list[DType], declared: list[TensorShape]) -> QueueBase:
        kind = PaddingFIFOQueue if dynamic_pad else FIFOQueue
        return kind(capacity=capacity, dtypes=types, shapes=declared, shared_name=shared_name)

    def summarize(queue: QueueBase) -> None:
        summarize_filling(f"fraction_of_{capacity}_full", queue.size(), capacity)

    return batch_through_queue(
        tensors_list, make_queue, batch_size, keep_input, num_threads, enqueue_many, shapes, allow_smaller_final_batch,
        summarize, name, default_name,
    )  # fmt: skip


def shuffled(
    tensors_list: Sequence[Any],
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    keep_input: Any,
    num_threads: int,
    seed: int | None,
    enqueue_many: bool,
    shapes: Any,
    allow_smaller_final_batch: bool,
    shared_name: str | None,
    name: str | None,
    default_name: str,
) -> Any:
    """Batches of examples in random order; see `batch_through_queue`."""
    if capacity <= min_after_dequeue:
        raise ValueError(f"capacity {capacity} must be bigger than min_after_dequeue {min_after_dequeue}.")

    def make_queue(types: list[DType], declared: list[TensorShape]) -> QueueBase:
        return RandomShuffleQueue(
            capacity=capacity,
            min_after_dequeue=min_after_dequeue,
            seed=seed,
            dtypes=types,
            shapes=declared,
            shared_name=shared_name,
        )

    def summarize(queue: QueueBase) -> None:
        room = capacity - min_after_dequeue
        over = apply_one("Maximum", 0, apply_one("Sub", queue.size(), min_after_dequeue, name="sub"))
        summarize_filling(f"fraction_over_{min_after_dequeue}_of_{room}_full", over, room)

    return batch_through_queue(
        tensors_list, make_queue, batch_size, keep_input, num_threads, enqueue_many, shapes, allow_smaller_final_batch,
        summarize, name, default_name,
    )  # fmt: skip
