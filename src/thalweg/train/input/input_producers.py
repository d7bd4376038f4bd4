"""Input producers: queues that a queue runner keeps filled with file names, numbers or slices of tensors."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.collections import GraphKeys
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import control_dependencies, name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import float32, string
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import as_shape
from thalweg.ops.array.constants import identity
from thalweg.ops.array.sequences import range as range_of
from thalweg.ops.array.shapes_of_tensors import shape, size
from thalweg.ops.flow.printing import Assert
from thalweg.ops.random.distributions import random_shuffle
from thalweg.ops.state.queues import FIFOQueue
from thalweg.state.variable import Variable
from thalweg.summary.functions import scalar
from thalweg.train.input.limit_epochs import limit_epochs
from thalweg.train.input.queue_runner import QueueRunner, add_queue_runner

_NO_FILES = "string_input_producer requires a non-null input tensor"


@export("train.match_filenames_once", "io.match_filenames_once")
def match_filenames_once(pattern: Any, name: str | None = None) -> Variable:
    """Returns a local variable with the names of the files that match, found when it is initialized.

    Args:
        pattern: A file pattern (glob), or a vector of them.
        name: A name for the variable.
    """
    with name_scope(name, "matching_filenames", [pattern]) as scope:
        return Variable(
            initial_value=apply_one("MatchingFiles", pattern),
            trainable=False,
            validate_shape=False,
            collections=[GraphKeys.LOCAL_VARIABLES],
            name=scope,
        )


@export("train.input_producer")
def input_producer(
    input_tensor: Any,
    element_shape: Any = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    summary_name: str | None = None,
    name: str | None = None,
    cancel_op: Any = None,
) -> FIFOQueue:
    """Makes a queue of the rows of a tensor, again and again, and a queue runner that fills it.

    Args:
        input_tensor: The tensor.
        element_shape: The shape of a row, if the shape of the tensor does not tell.
        num_epochs: How often the rows are produced; without end if None. The count is a local variable.
        shuffle: Whether each epoch has an order of its own.
        seed: Makes these orders repeatable.
        capacity: How many rows the queue holds.
        shared_name: A name under which sessions of the same container find the same queue.
        summary_name: A name for a summary of how full the queue is; no summary if None.
        name: A name scope.
        cancel_op: The op that closes the queue when the runner is stopped; the queue's own operation if None.

    Returns:
        The queue.

    Raises:
        ValueError: If the shape of a row is unknown.
    """
    with name_scope(name, "input_producer", [input_tensor]):
        rows = convert_to_tensor(input_tensor, name="input_tensor")
        element = as_shape(element_shape)
        if rows.shape.ndims is not None:
            element = rows.shape.with_rank_at_least(1)[1:].merge_with(element)
        if not element.is_fully_defined():
            raise ValueError(
                "Either `input_tensor` must have a fully defined shape or `element_shape` must be specified"
            )
        if shuffle:
            rows = random_shuffle(rows, seed=seed)
        rows = limit_epochs(rows, num_epochs)
        queue = FIFOQueue(
            capacity=capacity,
            dtypes=[rows.dtype.base_dtype],
            shapes=[element],
            shared_name=shared_name,
            name=name,  # type: ignore[arg-type]
        )
        add_queue_runner(QueueRunner(queue, [queue.enqueue_many([rows])], cancel_op=cancel_op))
        if summary_name is not None:
            summarize_filling(summary_name, queue.size(), capacity)
        return queue


def summarize_filling(summary_name: str, size: Tensor, capacity: int) -> None:
    """Adds a summary of the fraction of a queue that is in use."""
    scalar(summary_name, apply_one("Cast", size, DstT=float32) * (1.0 / capacity))


@export("train.string_input_producer")
def string_input_producer(
    string_tensor: Any,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
    cancel_op: Any = None,
) -> FIFOQueue:
    """Makes a queue of strings, mostly of the names of files for a reader, and a queue runner that fills it.

    Args:
        string_tensor: A vector of strings.
        num_epochs: How often they are produced; without end if None. The count is a local variable.
        shuffle: Whether each epoch has an order of its own.
        seed: Makes these orders repeatable.
        capacity: How many strings the queue holds.
        shared_name: A name under which sessions of the same container find the same queue.
        name: A name scope.
        cancel_op: The op that closes the queue when the runner is stopped; the queue's own operation if None.

    Returns:
        The queue.

    Raises:
        ValueError: If there are no strings. A tensor that turns out empty is an InvalidArgumentError of the step.

    Example:
        >>> queue = tf.train.string_input_producer(["a.txt", "b.txt"], num_epochs=1, shuffle=False)
        >>> name = queue.dequeue()
        >>> with tf.Session() as session:
        ...     session.run(tf.local_variables_initializer())
        ...     coord = tf.train.Coordinator()
        ...     threads = tf.train.start_queue_runners(session, coord)
        ...     print(session.run(name), session.run(name))
        ...     coord.request_stop()
        ...     coord.join(threads)
        b'a.txt' b'b.txt'
    """
    if not isinstance(string_tensor, (Tensor, Variable)) and not list(string_tensor):
        raise ValueError(_NO_FILES)
    with name_scope(name, "input_producer", [string_tensor]) as scope:
        strings = convert_to_tensor(string_tensor, string)
        not_empty = apply_one("Greater", size(strings), 0)
        with control_dependencies([Assert(not_empty, [_NO_FILES])]):
            strings = identity(strings)
        return input_producer(
            strings,
            element_shape=[],
            num_epochs=num_epochs,
            shuffle=shuffle,
            seed=seed,
            capacity=capacity,
            shared_name=shared_name,
            summary_name=f"fraction_of_{capacity}_full",
            name=scope,
            cancel_op=cancel_op,
        )


@export("train.range_input_producer")
def range_input_producer(
    limit: Any,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> FIFOQueue:
    """Makes a queue of the integers from 0 to `limit` - 1, and a queue runner that fills it.

    Args:
        limit: How many integers there are: an int32 scalar.
        num_epochs: How often they are produced; without end if None. The count is a local variable.
        shuffle: Whether each epoch has an order of its own.
        seed: Makes these orders repeatable.
        capacity: How many integers the queue holds.
        shared_name: A name under which sessions of the same container find the same queue.
        name: A name scope.

    Returns:
        The queue.
    """
    with name_scope(name, "input_producer", [limit]) as scope:
        return input_producer(
            range_of(limit),
            element_shape=[],
            num_epochs=num_epochs,
            shuffle=shuffle,
            seed=seed,
            capacity=capacity,
            shared_name=shared_name,
            summary_name=f"fraction_of_{capacity}_full",
            name=scope,
        )


@export("train.slice_input_producer")
def slice_input_producer(
    tensor_list: Any,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> list[Tensor]:
    """Returns one row of each tensor, of the same number, another one in each step; row numbers come from a queue.

    Args:
        tensor_list: Tensors with the same size in the first dimension.
        num_epochs: How often each row is produced; without end if None. The count is a local variable.
        shuffle: Whether each epoch has an order of its own.
        seed: Makes these orders repeatable.
        capacity: How many row numbers the queue holds.
        shared_name: A name under which sessions of the same container find the same queue.
        name: A name scope.

    Returns:
        A list of tensors, one for each of `tensor_list`.

    Raises:
        ValueError: If `tensor_list` is empty.
    """
    with name_scope(name, "input_producer", tensor_list):
        if not tensor_list:
            raise ValueError("Expected at least one tensor in slice_input_producer().")
        tensors = [convert_to_tensor(tensor) for tensor in tensor_list]
        # The tensors may have unknown sizes, so this is a tensor, too.
        count: Any = shape(tensors[0])

        queue = range_input_producer(
            count[0], num_epochs=num_epochs, shuffle=shuffle, seed=seed, capacity=capacity, shared_name=shared_name
        )
        index = queue.dequeue()
        return [apply_one("GatherV2", tensor, index, 0, batch_dims=0) for tensor in tensors]
