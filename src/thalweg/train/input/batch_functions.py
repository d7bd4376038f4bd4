"""tf.train.batch, shuffle_batch, their joins, and the variants that leave examples out."""

from __future__ import annotations

from typing import Any

from thalweg.graph.definitions.op_registry import export
from thalweg.train.input.batching import in_order, shuffled


@export("train.batch")
def batch(
    tensors: Any,
    batch_size: Any,
    num_threads: int = 1,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Makes batches of examples in the order in which they arrive.

    A queue holds examples; a queue runner, which `tf.train.start_queue_runners` starts, fills it. When the input ends
    with OutOfRangeError the queue is closed, and taking batches ends in the same way.

    Args:
        tensors: The tensors of one example: a tensor, a list or a dictionary; sparse ones are allowed.
        batch_size: The number of examples in a batch.
        num_threads: How many threads enqueue. With more than one, the order is not repeatable.
        capacity: How many examples the queue holds.
        enqueue_many: Whether the tensors hold several examples, one per row.
        shapes: The shapes of the components; those of the tensors if None.
        dynamic_pad: Whether the examples of a batch may differ in size; they are padded with zeros.
        allow_smaller_final_batch: Whether the last batch may be smaller; its size is unknown then.
        shared_name: A name under which sessions of the same container find the same queue.
        name: A name scope.

    Returns:
        The same structure as `tensors`, with the batch as a new first dimension; for a list of one tensor, a tensor.

    Raises:
        ValueError: If a shape is needed and unknown.

    Example:
        >>> number = tf.train.range_input_producer(4, shuffle=False).dequeue()
        >>> pair = tf.train.batch([number], batch_size=2)
        >>> with tf.Session() as session:
        ...     coord = tf.train.Coordinator()
        ...     threads = tf.train.start_queue_runners(session, coord)
        ...     print(session.run(pair), session.run(pair))
        ...     coord.request_stop()
        ...     coord.join(threads)
        [0 1] [2 3]
    """
    return in_order(
        [tensors], batch_size, True, num_threads, capacity, enqueue_many, shapes, dynamic_pad,
        allow_smaller_final_batch, shared_name, name, "batch",
    )  # fmt: skip


@export("train.maybe_batch")
def maybe_batch(
    tensors: Any,
    keep_input: Any,
    batch_size: Any,
    num_threads: int = 1,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `batch`, but only examples for which `keep_input` is true go into the queue.

    With `enqueue_many`, `keep_input` may be a vector, one for each row. The other arguments are those of `batch`.
    """
    return in_order(
        [tensors], batch_size, keep_input, num_threads, capacity, enqueue_many, shapes, dynamic_pad,
        allow_smaller_final_batch, shared_name, name, "batch",
    )  # fmt: skip


@export("train.batch_join")
def batch_join(
    tensors_list: Any,
    batch_size: Any,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Makes batches from several sources, each with a thread of its own that fills the common queue.

    Args:
        tensors_list: A list with the tensors of an example of each source; all alike in structure and types.
        batch_size: The number of examples in a batch.
        capacity: How many examples the queue holds.
        enqueue_many: Whether the tensors hold several examples, one per row.
        shapes: The shapes of the components; what the tensors have in common if None.
        dynamic_pad: Whether the examples of a batch may differ in size; they are padded with zeros.
        allow_smaller_final_batch: Whether the last batch may be smaller; its size is unknown then.
        shared_name: A name under which sessions of the same container find the same queue.
        name: A name scope.

    Returns:
        The same structure as one of `tensors_list`, with the batch as a new first dimension.
    """
    return in_order(
        tensors_list, batch_size, True, 1, capacity, enqueue_many, shapes, dynamic_pad, allow_smaller_final_batch,
        shared_name, name, "batch_join",
    )  # fmt: skip


@export("train.maybe_batch_join")
def maybe_batch_join(
    tensors_list: Any,
    keep_input: Any,
    batch_size: Any,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `batch_join`, but only examples for which `keep_input` is true go into the queue."""
    return in_order(
        tensors_list, batch_size, keep_input, 1, capacity, enqueue_many, shapes, dynamic_pad,
        allow_smaller_final_batch, shared_name, name, "batch_join",
    )  # fmt: skip


@export("train.shuffle_batch")
def shuffle_batch(
    tensors: Any,
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    num_threads: int = 1,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Makes batches of examples in random order.

    Args:
        tensors: The tensors of one example: a tensor, a list or a dictionary; sparse ones are allowed.
        batch_size: The number of examples in a batch.
        capacity: How many examples the queue holds.
        min_after_dequeue: How many stay in the queue, for a good mixture.
        num_threads: How many threads enqueue.
        seed: Makes the order repeatable, with one thread.
        enqueue_many: Whether the tensors hold several examples, one per row.
        shapes: The shapes of the components; those of the tensors if None.
        allow_smaller_final_batch: Whether the last batch may be smaller; its size is unknown then.
        shared_name: A name under which sessions of the same container find the same queue.
        name: A name scope.

    Returns:
        The same structure as `tensors`, with the batch as a new first dimension.

    Raises:
        ValueError: If `capacity` is not greater than `min_after_dequeue`, or a shape is unknown.
    """
    return shuffled(
        [tensors], batch_size, capacity, min_after_dequeue, True, num_threads, seed, enqueue_many, shapes,
        allow_smaller_final_batch, shared_name, name, "shuffle_batch",
    )  # fmt: skip


@export("train.maybe_shuffle_batch")
def maybe_shuffle_batch(
    tensors: Any,
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    keep_input: Any,
    num_threads: int = 1,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `shuffle_batch`, but only examples for which `keep_input` is true go into the queue."""
    return shuffled(
        [tensors], batch_size, capacity, min_after_dequeue, keep_input, num_threads, seed, enqueue_many, shapes,
        allow_smaller_final_batch, shared_name, name, "shuffle_batch",
    )  # fmt: skip


@export("train.shuffle_batch_join")
def shuffle_batch_join(
    tensors_list: Any,
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Makes batches in random order from several sources, each with a thread of its own; see `batch_join`."""
    return shuffled(
        tensors_list, batch_size, capacity, min_after_dequeue, True, 1, seed, enqueue_many, shapes,
        allow_smaller_final_batch, shared_name, name, "shuffle_batch_join",
    )  # fmt: skip


@export("train.maybe_shuffle_batch_join")
def maybe_shuffle_batch_join(
    tensors_list: Any,
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    keep_input: Any,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `shuffle_batch_join`, but only examples for which `keep_input` is true go into the queue."""
    return shuffled(
        tensors_list, batch_size, capacity, min_after_dequeue, keep_input, 1, seed, enqueue_many, shapes,
        allow_smaller_final_batch, shared_name, name, "shuffle_batch_join",
    )  # fmt: skip
