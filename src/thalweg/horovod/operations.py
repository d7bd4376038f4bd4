"""allreduce, allgather, broadcast and reducescatter over all processes."""

from __future__ import annotations

import re
from typing import Any, Final

from thalweg.graph.composite import IndexedSlices
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import get_default_graph, name_scope
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.horovod.compression import Compression
from thalweg.horovod.world import WORLD, world
from thalweg.ops.flow import collective_ops
from thalweg.ops.math.casting import cast

Sum: Final = "Sum"
Average: Final = "Average"
Min: Final = "Min"
Max: Final = "Max"
_MERGES: Final = {Sum: ("Add", "Id"), Average: ("Add", "Div"), Min: ("Min", "Id"), Max: ("Max", "Id")}
_INSTANCES: Final = "__thalweg_horovod_instances"  # underlined: such collections are not saved


def _instance(name: str | None, kind: str, tensor: Tensor | None) -> dict[str, Any]:
    """The arguments of an operation of the world: its name in the graph decides on which other ones it meets."""
    if name is None:
        name = kind if tensor is None else f"{kind}_{re.sub('[^a-zA-Z0-9]', '_', tensor.name)}"
    graph = get_default_graph()
    full = graph.unique_name(name, mark_as_used=False)
    key = collective_ops.instance_key_of(full)
    known: list[dict[int, str]] = graph.get_collection_ref(_INSTANCES)
    if not known:
        known.append({})
    if known[0].setdefault(key, full) != full:
        raise ValueError(f"The names '{full}' and '{known[0][key]}' have the same hash: change one of them.")
    return {"group_size": 0, "group_key": WORLD, "instance_key": key, "name": name}


def allreduce(
    tensor: Any,
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    op: str | None = None,
    name: str | None = None,
) -> Any:
    """The sum or the mean of a tensor over all processes, added up in the order of the ranks.

    IndexedSlices are gathered: the result has the rows of all processes.

    Args:
        tensor: A Tensor or IndexedSlices; of the same type and shape in all processes.
        average: Whether to divide by the number of processes; the default, unless `op` says otherwise.
        device_dense: Without effect.
        device_sparse: Without effect.
        compression: How tensors travel: a member of `Compression`.
        op: `Average`, `Sum`, `Min` or `Max`, instead of `average`.
        name: What the operation is called, in all processes; by default it follows from the tensor's name.

    Raises:
        ValueError: If both `average` and `op` are given, or `op` is unknown.
    """
    if op is not None and average is not None:
        raise ValueError("Both `op` and `average` are given; use one of them.")
    op = (Sum if average is False else Average) if op is None else op
    if op not in _MERGES:
        raise ValueError(f"op must be one of {', '.join(_MERGES)}, got {op!r}.")
    if isinstance(tensor, IndexedSlices):
        return _allreduce_slices(tensor, op, name)
    given = convert_to_tensor(tensor)
    arguments = _instance(name, "HorovodAllreduce", given)
    small, context = compression.compress(given)
    merge_op, final_op = _MERGES[op]
    reduced = collective_ops.all_reduce(small, merge_op=merge_op, final_op=final_op, **arguments)
    return compression.decompress(reduced, context)


def _allreduce_slices(slices: IndexedSlices, op: str, name: str | None) -> IndexedSlices:
    if op not in (Sum, Average):
        raise ValueError(f"IndexedSlices can be summed or averaged, but op is {op!r}.")
    with name_scope(name, "HorovodAllreduceSlices"):
        values = allgather(slices.values, name="values")
        indices = allgather(slices.indices, name="indices")
        if op == Average:
            values = values / cast(world_size(), values.dtype)
    return IndexedSlices(values, indices, slices.dense_shape)


def world_size() -> Tensor:
    """How many processes there are at the time of the step: `reinit` may change it."""
    arguments = _instance("HorovodSize", "HorovodSize", None)
    return collective_ops.all_reduce(convert_to_tensor(1), **arguments)


def allgather(tensor: Any, name: str | None = None) -> Tensor:
    """The rows of all processes, in the order of the ranks; their numbers may differ.

    Args:
        tensor: The rows of this process.
        name: What the operation is called, in all processes; by default it follows from the tensor's name.
    """
    given = convert_to_tensor(tensor)
    return collective_ops.all_gather(given, **_instance(name, "HorovodAllgather", given))


def reducescatter(tensor: Any, op: str = Average, name: str | None = None) -> Tensor:
    """This process's share of the rows of the sum, mean, minimum or maximum over all processes.

    Args:
        tensor: A tensor whose number of rows is a multiple of `size()`.
        op: `Average`, `Sum`, `Min` or `Max`.
        name: What the operation is called, in all processes; by default it follows from the tensor's name.
    """
    given = convert_to_tensor(tensor)
    merge_op, final_op = _MERGES[op]
    arguments = _instance(name, "HorovodReducescatter", given)
    return collective_ops.reduce_scatter(given, merge_op=merge_op, final_op=final_op, **arguments)


def broadcast(tensor: Any, root_rank: int, name: str | None = None) -> Tensor:
    """The tensor of one process, in all processes.

    Args:
        tensor: A tensor of the same type and shape in all processes.
        root_rank: The rank of the process whose tensor it is.
        name: What the operation is called, in all processes; by default it follows from the tensor's name.
    """
    world()
    given = convert_to_tensor(tensor)
    return collective_ops.broadcast(given, root_rank, **_instance(name, "HorovodBroadcast", given))


def barrier(name: str | None = None) -> Operation:
    """An operation that ends when all processes run theirs."""
    return collective_ops.barrier(**_instance(name, "HorovodBarrier", None))
