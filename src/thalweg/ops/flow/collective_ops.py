"""The collective ops: all-reduce, reduce-scatter, all-gather, broadcast and barrier over a group of devices."""

from __future__ import annotations

import zlib
from typing import Any

from thalweg.graph.apply import apply_one, apply_op
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, gradient, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.op_effects import Effect
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape

_GROUP = "group_size: int, group_key: int, instance_key: int"
_TRANSPORT = "communication_hint: string = 'auto', timeout_seconds: float = 0"
_NUMBERS = "bfloat16, float16, float, double, int8, int16, int32, int64, uint8, uint16, uint32, uint64"
_MERGE = (
    f"T: {{{_NUMBERS}}}, {_GROUP}, merge_op: {{'Min', 'Max', 'Mul', 'Add'}}, final_op: {{'Id', 'Div'}}, "
    f"subdiv_offsets: list(int) = [], wait_for: list(int) = [], {_TRANSPORT}"
)


def _scattered(c: ShapeContext) -> TensorShape:
    shape = shapes.with_rank_at_least(c.input(0), 1)
    if shape.ndims is None:
        return shape
    rows, members = shape[0].value, c.attr("group_size")
    if rows is not None and members > 0 and rows % members:
        raise ValueError(f"A reduce-scatter over {members} members needs a multiple of as many rows, got {shape}.")
    return TensorShape([None if rows is None or not members else rows // members]).concatenate(shape[1:])


def _gathered(c: ShapeContext) -> TensorShape:
    shape = shapes.with_rank_at_least(c.input(0), 1)
    declared = TensorShape(c.attr("shape"))
    if shape.ndims is None:
        return declared
    return shapes.merge(declared, TensorShape([None]).concatenate(shape[1:]))


def _declared(c: ShapeContext) -> TensorShape:
    return TensorShape(c.attr("shape"))


def _sent(c: ShapeContext) -> TensorShape:
    return shapes.merge(c.input(0), _declared(c))


define("CollectiveReduce", "input: T -> data: T", _MERGE, shape=shapes.unchanged, effect=Effect.EXTERNAL)
define("CollectiveReduceScatter", "input: T -> data: T", _MERGE, shape=_scattered, effect=Effect.EXTERNAL)
define(
    "CollectiveGather", "input: T -> data: T", f"T: type, {_GROUP}, shape: shape, {_TRANSPORT}",
    shape=_gathered, effect=Effect.EXTERNAL,
)  # fmt: skip
define(
    "CollectiveBcastSend", "input: T -> data: T", f"T: type, {_GROUP}, shape: shape, {_TRANSPORT}",
    shape=_sent, effect=Effect.EXTERNAL,
)  # fmt: skip
define(
    "CollectiveBcastRecv", "-> data: T", f"T: type, {_GROUP}, shape: shape, {_TRANSPORT}",
    shape=_declared, effect=Effect.EXTERNAL,
)  # fmt: skip
define(
    "CollectiveBroadcast", "input: T -> data: T", f"T: type, root_rank: int >= 0, {_GROUP}, {_TRANSPORT}",
    shape=shapes.unchanged, effect=Effect.EXTERNAL,
)  # fmt: skip
define("CollectiveBarrier", "->", f"{_GROUP}, {_TRANSPORT}", shape=shapes.no_outputs, effect=Effect.EXTERNAL)
not_differentiable("CollectiveBcastSend")
not_differentiable("CollectiveBcastRecv")
not_differentiable("CollectiveBroadcast")
not_differentiable("CollectiveBarrier")


def instance_key_of(name: str) -> int:
    """A number for an operation's `instance_key` that depends on nothing but a name: the same in all processes."""
    return zlib.crc32(name.encode()) & 0x7FFFFFFF


def _group_of(op: Operation) -> dict[str, Any]:
    """The group of an op, with an instance for its gradient: another one, and the same on all members."""
    instance = instance_key_of(f"gradient of {op.get_attr('instance_key')}")
    names = ("group_size", "group_key", "communication_hint", "timeout_seconds")
    return {**{name: op.get_attr(name) for name in names}, "instance_key": instance}


def _final_op_of_sum(op: Operation) -> Any:
    if op.get_attr("merge_op") not in ("Add", b"Add"):
        raise NotImplementedError(f"Only sums have a gradient, and '{op.name}' merges by {op.get_attr('merge_op')}.")
    return op.get_attr("final_op")


@gradient("CollectiveReduce")
def _reduce_gradient(op: Operation, grad: Tensor) -> Tensor:
    final_op = _final_op_of_sum(op)
    return apply_one("CollectiveReduce", grad, merge_op="Add", final_op=final_op, **_group_of(op))


@gradient("CollectiveReduceScatter")
def _reduce_scatter_gradient(op: Operation, grad: Tensor) -> Tensor:
    final_op = _final_op_of_sum(op)
    found = apply_one("CollectiveGather", grad, shape=op.inputs[0].shape, **_group_of(op))
    if final_op in ("Div", b"Div"):
        size = op.get_attr("group_size")
        if not size:
            raise NotImplementedError(f"The gradient of a mean needs the group_size, which '{op.name}' does not say.")
        found = apply_one("RealDiv", found, convert_to_tensor(size, found.dtype))
    return found


@gradient("CollectiveGather")
def _gather_gradient(op: Operation, grad: Tensor) -> Tensor:
    if op.inputs[0].shape.ndims is None or op.inputs[0].shape[0].value is None:
        raise NotImplementedError(f"The gradient of '{op.name}' needs the same, known number of rows on all members.")
    return apply_one("CollectiveReduceScatter", grad, merge_op="Add", final_op="Id", **_group_of(op))


@export("collective.all_reduce")
def all_reduce(
    t: Any,
    group_size: int,
    group_key: int,
    instance_key: int,
    merge_op: str = "Add",
    final_op: str = "Id",
    subdiv_offsets: Any = (0,),
    communication_hint: str = "auto",
    timeout: float = 0,
    name: str | None = None,
) -> Tensor:
    """Combines the tensors of all members of a group, element by element, in the order of their ranks.

    Members are devices: of one session, of the tasks of a cluster, or of processes with sessions of their own. Each of
    them has such a node with the same three numbers.

    Args:
        t: The tensor of this member. All members have one of the same type and shape.
        group_size: How many members there are.
        group_key: The number of the group.
        instance_key: The number of this operation in the group.
        merge_op: "Add", "Mul", "Min" or "Max".
        final_op: "Id", or "Div" to divide by the number of members.
        subdiv_offsets: Accepted for TensorFlow's sake, without effect.
        communication_hint: Likewise.
        timeout: How many seconds to wait at most; 0: as long as all members live.
        name: A name for the operation.

    Returns:
        The combination, the same bits on all members.

    Example:
        >>> config = tf.ConfigProto(device_count={"CPU": 2})
        >>> sums = []
        >>> for i in range(2):
        ...     with tf.device(f"/cpu:{i}"):
        ...         sums.append(tf.collective.all_reduce(tf.constant([1.0, float(i)]), 2, 1, 1))
        >>> with tf.Session(config=config) as sess:
        ...     print(sess.run(sums))
        [array([2., 1.], dtype=float32), array([2., 1.], dtype=float32)]
    """
    return apply_one(
        "CollectiveReduce", t, group_size=group_size, group_key=group_key, instance_key=instance_key,
        merge_op=merge_op, final_op=final_op, subdiv_offsets=list(subdiv_offsets),
        communication_hint=communication_hint, timeout_seconds=timeout, name=name,
    )  # fmt: skip


@export("collective.reduce_scatter")
def reduce_scatter(
    t: Any,
    group_size: int,
    group_key: int,
    instance_key: int,
    merge_op: str = "Add",
    final_op: str = "Id",
    timeout: float = 0,
    name: str | None = None,
) -> Tensor:
    """As `all_reduce`, but each member gets only its share of the rows: the first share for rank 0, and so on.

    Args:
        t: The tensor of this member; the number of its rows is a multiple of `group_size`.
        group_size: How many members there are.
        group_key: The number of the group.
        instance_key: The number of this operation in the group.
        merge_op: "Add", "Mul", "Min" or "Max".
        final_op: "Id", or "Div" to divide by the number of members.
        timeout: How many seconds to wait at most; 0: as long as all members live.
        name: A name for the operation.
    """
    return apply_one(
        "CollectiveReduceScatter", t, group_size=group_size, group_key=group_key, instance_key=instance_key,
        merge_op=merge_op, final_op=final_op, timeout_seconds=timeout, name=name,
    )  # fmt: skip


@export("collective.all_gather")
def all_gather(
    t: Any,
    group_size: int,
    group_key: int,
    instance_key: int,
    communication_hint: str = "auto",
    timeout: float = 0,
    name: str | None = None,
) -> Tensor:
    """Joins the rows of all members of a group, in the order of their ranks.

    Args:
        t: The tensor of this member. Members may have different numbers of rows.
        group_size: How many members there are.
        group_key: The number of the group.
        instance_key: The number of this operation in the group.
        communication_hint: Accepted for TensorFlow's sake, without effect.
        timeout: How many seconds to wait at most; 0: as long as all members live.
        name: A name for the operation.
    """
    tensor = convert_to_tensor(t)
    shape = None if tensor.shape.ndims is None else TensorShape([None]).concatenate(tensor.shape[1:])
    return apply_one(
        "CollectiveGather", tensor, group_size=group_size, group_key=group_key, instance_key=instance_key,
        shape=shape, communication_hint=communication_hint, timeout_seconds=timeout, name=name,
    )  # fmt: skip


@export("collective.broadcast_send")
def broadcast_send(
    t: Any,
    shape: Any,
    dtype: Any,
    group_size: int,
    group_key: int,
    instance_key: int,
    communication_hint: str = "auto",
    timeout: float = 0,
    name: str | None = None,
) -> Tensor:
    """Gives a tensor to all other members of a group, which have a `broadcast_recv`.

    Args:
        t: The tensor.
        shape: Its shape.
        dtype: Its type.
        group_size: How many members there are, this one included.
        group_key: The number of the group.
        instance_key: The number of this operation in the group.
        communication_hint: Accepted for TensorFlow's sake, without effect.
        timeout: How many seconds to wait at most; 0: as long as all members live.
        name: A name for the operation.

    Returns:
        The tensor.
    """
    return apply_one(
        "CollectiveBcastSend", convert_to_tensor(t, dtype), shape=shape, group_size=group_size, group_key=group_key,
        instance_key=instance_key, communication_hint=communication_hint, timeout_seconds=timeout, name=name,
    )  # fmt: skip


@export("collective.broadcast_recv")
def broadcast_recv(
    shape: Any,
    dtype: Any,
    group_size: int,
    group_key: int,
    instance_key: int,
    communication_hint: str = "auto",
    timeout: float = 0,
    name: str | None = None,
) -> Tensor:
    """The tensor that the member with the `broadcast_send` gives.

    The arguments are those of `broadcast_send`; `shape` may be None.
    """
    return apply_one(
        "CollectiveBcastRecv", T=dtype, shape=shape, group_size=group_size, group_key=group_key,
        instance_key=instance_key, communication_hint=communication_hint, timeout_seconds=timeout, name=name,
    )  # fmt: skip


@export("collective.broadcast")
def broadcast(
    t: Any,
    root_rank: int,
    group_size: int,
    group_key: int,
    instance_key: int,
    timeout: float = 0,
    name: str | None = None,
) -> Tensor:
    """The tensor of one member of a group, on all of them.

    Args:
        t: The tensor of this member; only that of the root travels.
        root_rank: The rank of the root.
        group_size: How many members there are.
        group_key: The number of the group.
        instance_key: The number of this operation in the group.
        timeout: How many seconds to wait at most; 0: as long as all members live.
        name: A name for the operation.
    """
    return apply_one(
        "CollectiveBroadcast", t, root_rank=root_rank, group_size=group_size, group_key=group_key,
        instance_key=instance_key, timeout_seconds=timeout, name=name,
    )  # fmt: skip


@export("collective.barrier")
def barrier(
    group_size: int, group_key: int, instance_key: int, timeout: float = 0, name: str | None = None
) -> Operation:
    """An operation that ends when all members of a group run theirs.

    Args:
        group_size: How many members there are.
        group_key: The number of the group.
        instance_key: The number of this operation in the group.
        timeout: How many seconds to wait at most; 0: as long as all members live.
        name: A name for the operation.
    """
    return apply_op(
        "CollectiveBarrier", group_size=group_size, group_key=group_key, instance_key=instance_key,
        timeout_seconds=timeout, name=name,
    )  # fmt: skip
