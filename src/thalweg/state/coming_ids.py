"""Ids of the next batch: what the input pipeline will give to a look-up after this step, if that is known already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thalweg.graph.apply import apply_list, apply_one
from thalweg.graph.operation import Operation
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor

# Ops whose output has values of their first input and no others: which input of the op the values come from.
_SAME_VALUES = {
    "Identity": 0, "StopGradient": 0, "Reshape": 0, "ExpandDims": 0, "Squeeze": 0, "Transpose": 0, "Unique": 0,
    "UniqueV2": 0, "DynamicPartition": 0, "StridedSlice": 0, "GatherV2": 0, "Slice": 0, "Unpack": 0, "SplitV": 0,
    "Split": 1, "SparseFillEmptyRows": 1,
}  # fmt: skip
_ITERATORS = ("IteratorGetNext", "IteratorGetNextSync")
_QUEUES = ("QueueDequeueV2", "QueueDequeueManyV2", "QueueDequeueUpToV2")
_KINDS = ("int32", "int64", "string")


def coming_ids(ids: Tensor) -> Tensor | None:
    """The ids of the next element of a dataset or queue from which `ids` are taken; None if they come from elsewhere.

    A vector or more, without elements while the next element is not there. It may have more ids than will be looked up:
    of what a program does with an element, cuts along rows are followed, columns that are picked are picked here, too.
    """
    way: list[Tensor] = []
    source: Tensor = ids
    while True:
        op = source.op
        if op.type in _ITERATORS or op.type in _QUEUES:
            break
        index = 0 if _is_cast(op) else _SAME_VALUES.get(op.type)
        if index is None or op._control_flow_context is not None:
            return None
        way.append(source)
        source = op.inputs[index]
    if source.dtype.base_dtype.name not in _KINDS or source.op._control_flow_context is not None:
        return None
    coming = _peeked(source)
    if source.op.type in _ITERATORS:
        for tensor in reversed(way):
            pick = _column(tensor)
            if pick is None and tensor.op.type not in ("Identity", "Cast"):
                break
            coming = coming if pick is None else pick(coming)
    wanted = ids.dtype.base_dtype
    return coming if coming.dtype.base_dtype is wanted else apply_one("Cast", coming, DstT=wanted)


def _is_cast(op: Operation) -> bool:
    kinds = ("int32", "int64")
    return op.type == "Cast" and op.inputs[0].dtype.name in kinds and op.outputs[0].dtype.name in kinds


def _peeked(source: Tensor) -> Tensor:
    """The op that looks at the next element; the same one for all look-ups."""
    op, component = source.op, source.value_index
    known = op.graph.get_collection_ref("coming_ids")
    for tensor, coming in known:
        if tensor is source:
            found: Tensor = coming
            return found
    # After the source's own element has been taken. (It is an input and no control input: a step that is fed the
    # element must not take one.)
    attrs: dict[str, Any] = {"component": component, "dtype": source.dtype.base_dtype}
    with op.graph.control_dependencies(None):
        if op.type in _ITERATORS:
            made = apply_one("_IteratorPeek", op.inputs[0], source, **attrs)
        else:
            count = op.inputs[1] if len(op.inputs) > 1 else 1
            made = apply_one("_QueuePeek", op.inputs[0], count, source, **attrs)
    known.append((source, made))
    return made


def _column(tensor: Tensor) -> Callable[[Tensor], Tensor] | None:
    """How an op picks columns, if that is what it does: all rows stay."""
    op = tensor.op
    if op.type == "Unpack" and op.attrs["axis"] > 0:
        return lambda coming: apply_list("Unpack", coming, num=op.attrs["num"], axis=op.attrs["axis"])[
            tensor.value_index
        ]
    if op.type == "StridedSlice":
        attrs = op.attrs
        all_rows = attrs["begin_mask"] & 1 and attrs["end_mask"] & 1 and not attrs["shrink_axis_mask"] & 1
        plain = not attrs["ellipsis_mask"] and not attrs["new_axis_mask"]
        limits = [constant_value(tensor) for tensor in op.inputs[1:]]
        if not (all_rows and plain) or any(limit is None for limit in limits) or limits[2][0] != 1:
            return None
        masks = {name: attrs[name] for name in ("begin_mask", "end_mask", "shrink_axis_mask")}
        return lambda coming: apply_one("StridedSlice", coming, *limits, **masks)
    return None
