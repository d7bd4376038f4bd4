"""Batches of examples of like length, by queues: bucket and bucket_by_sequence_length."""

from __future__ import annotations

import itertools
from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph import nest
from thalweg.graph.definitions.op_registry import export


@export("contrib.training.bucket")
def bucket(
    tensors: Any, which_bucket: Any, batch_size: Any, num_buckets: int, num_threads: int = 1, capacity: int = 32,
    bucket_capacities: Any = None, shapes: Any = None, dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    keep_input: Any = True, shared_name: str | None = None, name: str | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Puts examples into the queue of their bucket; a full batch of one bucket comes out.

    Args:
        tensors: The tensors of an example, a list or a dict.
        which_bucket: The number of its bucket, a scalar.
        batch_size: Examples in a batch, one number or one per bucket.
        num_buckets: How many buckets there are.
        num_threads: How many threads fill the queues.
        capacity: How many batches wait at the output.
        bucket_capacities: How many examples wait in each bucket; `capacity` if None.
        shapes: The shapes of the tensors; theirs if None.
        dynamic_pad: Whether examples are padded with zeros to the longest of the batch.
        allow_smaller_final_batch: Whether the last batch of a bucket may be smaller.
        keep_input: A scalar: whether the example is kept.
        shared_name: The name of the queues across sessions.
        name: The name scope.

    Returns:
        The number of the bucket, and the tensors of the batch.

    Raises:
        ValueError: If sizes do not fit the number of buckets.
    """
    flat = [tf.convert_to_tensor(each) for each in nest.flatten(tensors)]
    sizes = list(batch_size) if isinstance(batch_size, (list, tuple)) else [batch_size] * num_buckets
    if len(sizes) != num_buckets:
        raise ValueError(f"If batch_size is a list it must have num_buckets elements: {len(sizes)} and {num_buckets}")
    held = list(bucket_capacities) if bucket_capacities is not None else [capacity] * num_buckets
    if len(held) != num_buckets:
        raise ValueError(f"The list bucket_capacities must have exactly num_buckets elements: {len(held)}")
    with tf.name_scope(name, "bucket", flat) as scope:
        kinds = [each.dtype for each in flat]
        given = [tf.TensorShape(each) for each in shapes] if shapes is not None else [each.shape for each in flat]
        make = tf.PaddingFIFOQueue if dynamic_pad else tf.FIFOQueue
        queues = [
            make(held[i], kinds, given, shared_name=shared_name and f"{shared_name}_{i}", name=f"bucket_queue_{i}")
            for i in range(num_buckets)
        ]
        static = all(isinstance(size, int) for size in sizes) and len(set(sizes)) == 1 and not allow_smaller_final_batch
        batch_shapes = [tf.TensorShape([sizes[0] if static else None]).concatenate(each) for each in given]
        top = tf.PaddingFIFOQueue(
            capacity, [tf.int32, *kinds], [tf.TensorShape([]), *batch_shapes], shared_name=shared_name, name="top_queue"
        )
        choice = tf.cast(tf.convert_to_tensor(which_bucket), tf.int32)

        def fill() -> Any:
            branches = [
                (tf.equal(choice, i), lambda q=queue: tf.group(q.enqueue(flat))) for i, queue in enumerate(queues)
            ]
            return tf.group(tf.case(branches, default=lambda: tf.group(tf.Assert(False, ["no bucket", choice]))))

        keep = tf.convert_to_tensor(keep_input)
        enqueue = fill() if tf.get_static_value(keep) else tf.cond(keep, fill, tf.no_op)
        closed = (tf.errors.OutOfRangeError, tf.errors.CancelledError)
        close = tf.group(*[queue.close() for queue in queues])
        cancel = tf.group(*[queue.close(cancel_pending_enqueues=True) for queue in queues])
        tf.train.add_queue_runner(
            tf.train.QueueRunner(queues[0], [enqueue] * num_threads, close, cancel, queue_closed_exception_types=closed)
        )
        for i, queue in enumerate(queues):
            batch = (queue.dequeue_up_to if allow_smaller_final_batch else queue.dequeue_many)(sizes[i])
            values = list(batch) if isinstance(batch, (list, tuple)) else [batch]
            tf.train.add_queue_runner(
                tf.train.QueueRunner(
                    top, [top.enqueue([tf.constant(i), *values])], tf.no_op(),
                    top.close(cancel_pending_enqueues=True), queue_closed_exception_types=closed,
                )
            )  # fmt: skip
        number, *out = top.dequeue(name=scope)
        return number, nest.pack_sequence_as(tensors, out)


@export("contrib.training.bucket_by_sequence_length")
def bucket_by_sequence_length(
    input_length: Any, tensors: Any, batch_size: Any, bucket_boundaries: Any, num_threads: int = 1, capacity: int = 32,
    bucket_capacities: Any = None, shapes: Any = None, dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    keep_input: Any = True, shared_name: str | None = None, name: str | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """The same by the length of an example: buckets are the intervals between boundaries.

    Returns:
        The lengths of the examples, and the tensors of the batch.

    Raises:
        TypeError: If the boundaries are no list.
        ValueError: If they are empty or not increasing.
    """
    if not isinstance(bucket_boundaries, (list, tuple)):
        raise TypeError(f"bucket_boundaries must be a list or tuple, but received: {bucket_boundaries}")
    if not bucket_boundaries or any(a >= b for a, b in itertools.pairwise(bucket_boundaries)):
        raise ValueError(f"bucket_boundaries must not be empty, and increase: {bucket_boundaries}")
    with tf.name_scope(name, "bucket_by_sequence_length", [input_length]):
        length = tf.cast(tf.convert_to_tensor(input_length), tf.int32)
        which = tf.reduce_sum(tf.cast(tf.greater_equal(length, list(bucket_boundaries)), tf.int32))
        flat = nest.flatten(tensors)
        _, (lengths, *values) = bucket(
            [length, *flat], which, batch_size, len(bucket_boundaries) + 1, num_threads, capacity, bucket_capacities,
            None if shapes is None else [[], *shapes], dynamic_pad, allow_smaller_final_batch, keep_input, shared_name,
        )  # fmt: skip
        return lengths, nest.pack_sequence_as(tensors, list(values))
