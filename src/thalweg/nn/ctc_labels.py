"""CTC with labels as dense rows and any class as the blank, and functions that prepare such labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.control_flow.functional import map_fn
from thalweg.graph.apply import apply, apply_one
from thalweg.graph.composite import SparseTensor, is_sparse
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import int32, int64
from thalweg.graph.tensor import Tensor
from thalweg.ops.array.gather import gather, gather_nd
from thalweg.ops.array.patches import sequence_mask
from thalweg.ops.array.select import where
from thalweg.ops.array.shapes_of_tensors import shape
from thalweg.ops.math.casting import cast
from thalweg.ops.nn.ctc import ctc_loss
from thalweg.ops.sparse.tensors import as_sparse


@export("nn.ctc_loss_v2")
def ctc_loss_v2(
    labels: Any, logits: Any, label_length: Any, logit_length: Any, logits_time_major: bool = True, unique: Any = None,
    blank_index: int | None = None, name: str | None = None,
) -> Tensor:  # fmt: skip
    """Returns the same loss as `ctc_loss`, for labels that are dense or sparse, and any class as the blank.

    Args:
        labels: Integers `[batch, longest]`, or a SparseTensor of int32.
        logits: `[time, batch, classes]`.
        label_length: How many labels of each row count; None for a SparseTensor.
        logit_length: How many moments of each example count.
        logits_time_major: Whether `logits` are `[time, batch, classes]` rather than `[batch, time, classes]`.
        unique: Ignored: the result of `ctc_unique_labels` would make nothing faster here.
        blank_index: The class that is the blank, from the end if negative. 0 if None, for dense labels.
        name: A name scope.

    Returns:
        A vector with the loss of each example.

    Raises:
        ValueError: If the blank index is missing for sparse labels, or is not a class.
    """
    with name_scope(name, "ctc_loss", [logits, labels, label_length, logit_length]):
        logits = convert_to_tensor(logits, name="logits")
        if is_sparse(labels):
            if blank_index is None:
                raise ValueError("blank_index must be given when using SparseTensor labels.")
            sparse = as_sparse(labels)
        else:
            sparse = _sparse_rows(cast(labels, int32), label_length)
        classes = logits.shape.as_list()[-1] if logits.shape.ndims else None
        if classes is None:
            raise ValueError(f"The number of classes must be known; the shape of logits is {logits.shape}.")
        blank = 0 if blank_index is None else blank_index
        if not -classes <= blank < classes:
            raise ValueError(f"blank_index must be in [{-classes}, {classes}), got {blank}.")
        blank %= classes
        if blank != classes - 1:
            # The kernel knows the blank as the last class; the ones above it move down by one.
            order = np.array([*range(blank), *range(blank + 1, classes), blank], np.int32)
            places = np.argsort(order).astype(np.int32)
            logits = gather(logits, order, axis=-1)
            moved = gather(convert_to_tensor(places), sparse.values)
            sparse = SparseTensor(sparse.indices, moved, sparse.dense_shape)
        return ctc_loss(sparse, logits, cast(logit_length, int32), time_major=logits_time_major)


def _sparse_rows(labels: Tensor, lengths: Any) -> SparseTensor:
    sizes = shape(labels, out_type=int64)
    if lengths is None:
        raise ValueError("label_length must be given for dense labels.")
    longest = apply_one("StridedSlice", shape(labels), [1], [2], [1], shrink_axis_mask=1)
    places = where(sequence_mask(lengths, longest))
    return SparseTensor(places, gather_nd(labels, places), sizes)


@export("nn.collapse_repeated")
def collapse_repeated(labels: Any, seq_length: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Merges equal neighbours in rows of labels.

    Args:
        labels: `[batch, longest]`.
        seq_length: How many of each row count.
        name: A name scope.

    Returns:
        (rows, lengths): the labels that are left, as wide as the longest row, with zeros behind; and their number.

    Example:
        >>> rows, lengths = tf.nn.collapse_repeated([[1, 1, 2], [3, 4, 4]], [3, 2])
        >>> with tf.Session() as s:
        ...     print(s.run(rows).tolist(), s.run(lengths).tolist())
        [[1, 2], [3, 4]] [2, 2]
    """
    with name_scope(name, "collapse_repeated_labels", [labels, seq_length]):
        rows = convert_to_tensor(labels)
        lengths = cast(seq_length, int32)
        longest = apply_one("StridedSlice", shape(rows), [1], [2], [1], shrink_axis_mask=1)
        before = apply_one("StridedSlice", rows, [0, 0], [0, -1], [1, 1], begin_mask=3, end_mask=1)
        after = apply_one("StridedSlice", rows, [0, 1], [0, 0], [1, 1], begin_mask=1, end_mask=3)
        first = apply_one("StridedSlice", rows, [0, 0], [0, 1], [1, 1], begin_mask=3, end_mask=1)
        differs = apply_one("ConcatV2", [apply_one("Equal", first, first), apply_one("NotEqual", before, after)], 1)
        kept = apply_one("LogicalAnd", differs, sequence_mask(lengths, longest))
        number = apply_one("Sum", cast(kept, int32), [1])
        width = apply_one("Maximum", apply_one("Max", number, [0]), 0)
        values = gather_nd(rows, where(kept))
        places = where(sequence_mask(number, width))
        width = cast(apply_one("Reshape", width, [1]), int64)
        sizes = apply_one("ConcatV2", [apply_one("Shape", number, out_type=int64), width], 0)
        return apply_one("ScatterNd", places, values, sizes), number


@export("nn.ctc_unique_labels")
def ctc_unique_labels(labels: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Finds the different labels of each row, as the argument `unique` of `ctc_loss_v2`.

    Args:
        labels: `[batch, longest]`, zeros behind the end.
        name: A name scope.

    Returns:
        (unique, idx), both of the shape of `labels`: the labels of each row in the order in which they appear, with
        zeros behind; and for each label its place among them.
    """
    with name_scope(name, "ctc_unique_labels", [labels]):
        rows = cast(labels, int64)

        def different(row: Tensor) -> tuple[Tensor, Tensor]:
            found = apply("Unique", row)
            space = apply_one("Sub", apply_one("Size", row), apply_one("Size", found.y))
            padding = apply_one("Reshape", apply_one("Pack", [0, space]), [1, 2])
            return apply_one("Pad", found.y, padding), found.idx

        unique, idx = map_fn(different, rows, dtype=(int64, int32))
        unique.set_shape(rows.shape)
        idx.set_shape(rows.shape)
        return unique, idx
