"""Looking up rows of embedding matrices, whole or sharded, one by one or combined.

Rows of shards, and of variables of another task, travel: ids are made unique before, cut by shard, gathered beside each
shard, stitched, and spread over the ids again (OSDI section 4.2). So the gradient of a look-up is summed for each
different id before it travels back.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph.apply import apply, apply_list, apply_one
from thalweg.graph.composite import SparseTensor, is_sparse
from thalweg.graph.conversion import convert_to_tensor, is_tensor_like
from thalweg.graph.default_graph import get_default_graph, name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.device_spec import DeviceSpec
from thalweg.graph.marks import DISTINCT
from thalweg.graph.static_value import constant_value_as_shape
from thalweg.graph.tensor import Tensor
from thalweg.ops.array.gather import gather
from thalweg.ops.sparse.rows import sparse_fill_empty_rows, sparse_retain
from thalweg.ops.sparse.tensors import as_sparse, sparse_reshape


def _shards(params: Any) -> list[Any]:
    """The parts of a list or of a partitioned variable; any other value is its only part."""
    if params is None:
        raise ValueError("params must be specified")
    if isinstance(params, (list, tuple)):
        parts = list(params)
    else:
        partitions = getattr(params, "_get_variable_list", None)
        parts = partitions() if callable(partitions) else [params]
    if not parts:
        raise ValueError("Need at least one param")
    return [part if is_tensor_like(part) else convert_to_tensor(part) for part in parts]


@export("nn.embedding_lookup")
def embedding_lookup(
    params: Any,
    ids: Any,
    partition_strategy: str = "mod",
    name: str | None = None,
    validate_indices: bool = True,
    max_norm: Any = None,
) -> Tensor:
    """Returns rows of `params`, which may be spread over several tensors.

    Args:
        params: A tensor or variable, or a list of them: the shards of one matrix.
        ids: Integer tensor: which rows.
        partition_strategy: How rows are spread over shards: row i is in shard `i % n` with 'mod', while with 'div' each
            shard has a contiguous range of rows, the first ones one more where it does not divide.
        name: A name for the operation.
        validate_indices: Ignored: indices are always checked.
        max_norm: If given, rows with a larger 2-norm are scaled down to it.

    Returns:
        A Tensor of shape `ids.shape + params.shape[1:]`.
    """
    shards = _shards(params)
    if partition_strategy not in ("mod", "div"):
        raise ValueError(f"Unrecognized partition strategy: {partition_strategy}")
    with name_scope(name, "embedding_lookup", [ids]):
        wanted = shards[0].keys_tensor(ids) if _is_table(shards[0]) else convert_to_tensor(ids)
        if len(shards) == 1 and not _is_of_a_task(shards[0]):
            get_default_graph()._shift_seeds(1)  # TensorFlow's Identity of the rows
            return _clip_rows(gather(shards[0], wanted), wanted, max_norm)
        flat = wanted if wanted.shape.ndims == 1 else apply_one("Reshape", wanted, [-1])
        unique = apply("Unique", flat)
        found = _rows_of_unique(shards, unique.y, partition_strategy)
        places = unique.idx if flat is wanted else apply_one("Reshape", unique.idx, apply_one("Shape", wanted))
        result = apply_one("GatherV2", found, places, 0)
        static = shards[0].shape
        if static.ndims is not None:
            result.set_shape(wanted.shape.concatenate(static[1:]))
        return _clip_rows(result, wanted, max_norm)


def _is_table(params: Any) -> bool:
    """Whether rows are found by ids of any value: an embedding variable, or one in parts."""
    parts = getattr(params, "_get_variable_list", None)
    first = parts()[0] if callable(parts) else params[0] if isinstance(params, (list, tuple)) and params else params
    return bool(getattr(first, "is_embedding_table", False))


def _is_of_a_task(shard: Any) -> bool:
    """Whether the program puts a variable on some task of a cluster, which may be another one than its reader's."""
    return hasattr(shard, "sparse_read") and bool(shard.device) and DeviceSpec.from_string(shard.device).job is not None


def _rows_of_unique(shards: list[Any], ids: Tensor, strategy: str) -> Tensor:
    """The rows of ids that are all different."""
    if len(shards) == 1:
        return gather(shards[0], ids)
    count = len(shards)
    shard, row = _shard_and_row(shards, ids, strategy)
    shard = shard if shard.dtype.name == "int32" else apply_one("Cast", shard, DstT="int32")
    with ids.graph._attr_scope({DISTINCT: True}):
        rows = apply_list("DynamicPartition", row, shard, num_partitions=count)
    numbers = apply_one("Range", 0, apply_one("Size", ids), 1)
    places = apply_list("DynamicPartition", numbers, shard, num_partitions=count)
    found = [gather(part, mine) for part, mine in zip(shards, rows, strict=True)]
    joined: Tensor = apply_one("ParallelDynamicStitch", places, found)
    return joined


def _shard_and_row(shards: list[Any], ids: Tensor, strategy: str) -> tuple[Tensor, Tensor]:
    """The shard of each id, and its row there."""
    count = len(shards)
    if _is_table(shards[0]):
        return shards[0].part_of(ids, count), ids
    number = ids.dtype.as_numpy_dtype
    # A division takes far longer than a multiplication: one of them serves for both results.
    if strategy == "mod":
        row = apply_one("FloorDiv", ids, number(count))
        return apply_one("Sub", ids, apply_one("Mul", row, number(count))), row
    sizes: list[Any] = [shard.shape.as_list()[0] if shard.shape.ndims else None for shard in shards]
    if None not in sizes:
        total: Any = number(sum(sizes))
        each, extra = total // number(count), total % number(count)
    else:
        tops = [apply_one("StridedSlice", apply_one("Shape", s), [0], [1], [1], shrink_axis_mask=1) for s in shards]
        total = apply_one("Cast", apply_one("AddN", tops), DstT=ids.dtype)
        each, extra = apply_one("FloorDiv", total, number(count)), apply_one("FloorMod", total, number(count))
    if not isinstance(extra, Tensor) and extra == 0:
        shard = apply_one("FloorDiv", ids, max(each, number(1)))
        return shard, apply_one("Sub", ids, apply_one("Mul", shard, each))
    # The first `extra` shards have one row more.
    past = apply_one("Sub", ids, extra)
    divisor = apply_one("Maximum", each, number(1)) if isinstance(each, Tensor) else max(each, number(1))
    longer = each + number(1)
    shard = apply_one("Maximum", apply_one("FloorDiv", ids, longer), apply_one("FloorDiv", past, divisor))
    begin = apply_one("Add", apply_one("Mul", shard, each), apply_one("Minimum", shard, extra))
    return shard, apply_one("Sub", ids, begin)


def _clip_rows(rows: Tensor, ids: Tensor, max_norm: Any) -> Tensor:
    if max_norm is None:
        return rows
    rank, ids_rank = rows.shape.ndims, ids.shape.ndims
    if rank is not None and ids_rank is not None:
        axes: Any = np.arange(ids_rank, rank, dtype=np.int32)
    else:
        axes = apply_one("Range", apply_one("Rank", ids), apply_one("Rank", rows), 1)
    norm = apply_one("Sqrt", apply_one("Sum", apply_one("Mul", rows, rows), axes, keep_dims=True))
    limit = convert_to_tensor(max_norm, rows.dtype)
    return apply_one("RealDiv", apply_one("Mul", rows, limit), apply_one("Maximum", norm, limit))


@export("nn.embedding_lookup_sparse")
def embedding_lookup_sparse(
    params: Any,
    sp_ids: Any,
    sp_weights: Any,
    partition_strategy: str = "mod",
    name: str | None = None,
    combiner: str | None = None,
    max_norm: Any = None,
) -> Tensor:
    """Looks up the ids in each row of a SparseTensor and combines their embeddings.

    Args:
        params: As for `embedding_lookup`.
        sp_ids: SparseTensor `[N, M]` of ids; every row must have at least one.
        sp_weights: SparseTensor of floats with the same indices, or None for weights of 1.
        partition_strategy: As for `embedding_lookup`.
        name: A name for the operation.
        combiner: 'mean' (the default), 'sqrtn' or 'sum'; the first two divide by the sum of the weights, or by the root
            of the sum of their squares.
        max_norm: As for `embedding_lookup`.

    Returns:
        A Tensor `[N] + params.shape[1:]`.
    """
    combiner = combiner or "mean"
    if combiner not in ("mean", "sqrtn", "sum"):
        raise ValueError(f"combiner must be one of 'mean', 'sqrtn' or 'sum', got {combiner!r}")
    if not is_sparse(sp_ids):
        raise TypeError(f"sp_ids must be SparseTensor, got {sp_ids!r}")
    if sp_weights is not None and not is_sparse(sp_weights):
        raise TypeError(f"sp_weights must be either None or SparseTensor, got {sp_weights!r}")
    ids = as_sparse(sp_ids)
    with name_scope(name, "embedding_lookup_sparse") as scope:
        rows = apply_one(
            "StridedSlice", ids.indices, [0, 0], [0, 1], [1, 1], begin_mask=1, end_mask=1, shrink_axis_mask=2
        )
        rows = apply_one("Cast", rows, DstT="int32")
        unique = apply("Unique", ids.values)
        shards = _shards(params)
        if partition_strategy not in ("mod", "div"):
            raise ValueError(f"Unrecognized partition strategy: {partition_strategy}")
        found = _clip_rows(_rows_of_unique(shards, unique.y, partition_strategy), unique.y, max_norm)
        if sp_weights is None:
            op_type = {"sum": "SparseSegmentSum", "mean": "SparseSegmentMean", "sqrtn": "SparseSegmentSqrtN"}[combiner]
            return apply_one(op_type, found, unique.idx, rows, name=scope)
        return _weighted(found, unique.idx, rows, as_sparse(sp_weights).values, combiner, scope)


def _weighted(found: Tensor, idx: Tensor, rows: Tensor, weights: Tensor, combiner: str, name: str) -> Tensor:
    """The sums of weighted rows, or their means; the last operation gets the name."""
    found = apply_one("GatherV2", found, idx, 0)
    if weights.dtype is not found.dtype:
        weights = apply_one("Cast", weights, DstT=found.dtype)
    # One weight for each row, whatever the shape of a row is.
    ones = apply_one("Fill", apply_one("ExpandDims", apply_one("Sub", apply_one("Rank", found), 1), 0), 1)
    weights = apply_one("Reshape", weights, apply_one("ConcatV2", [apply_one("Shape", weights), ones], 0))
    weighted = apply_one("Mul", found, weights)
    if combiner == "sum":
        return apply_one("SegmentSum", weighted, rows, name=name)
    total = apply_one("SegmentSum", weighted, rows)
    # A row without ids, or whose weights sum to zero, is zeros.
    if combiner == "mean":
        divisor = apply_one("SegmentSum", weights, rows)
    else:
        divisor = apply_one("Sqrt", apply_one("SegmentSum", apply_one("Mul", weights, weights), rows))
    return apply_one("DivNoNan", total, divisor, name=name)


@export("nn.safe_embedding_lookup_sparse", "contrib.layers.safe_embedding_lookup_sparse")
def safe_embedding_lookup_sparse(
    embedding_weights: Any,
    sparse_ids: Any,
    sparse_weights: Any = None,
    combiner: str = "mean",
    default_id: Any = None,
    name: str | None = None,
    partition_strategy: str = "div",
    max_norm: Any = None,
) -> Tensor:
    """Like `embedding_lookup_sparse`, for ids that may be missing or invalid.

    Ids below 0 and (unless summing) weights that are not positive are dropped. Rows without an id get `default_id`, or
    zeros if it is None. The ids may have any rank from 2 on; the last dimension is combined.

    Args:
        embedding_weights: As `params` of `embedding_lookup`.
        sparse_ids: SparseTensor of ids.
        sparse_weights: SparseTensor of floats with the same indices, or None.
        combiner: 'mean', 'sqrtn' or 'sum'.
        default_id: The id for rows that have none.
        name: A name for the operation.
        partition_strategy: As for `embedding_lookup`.
        max_norm: As for `embedding_lookup`.

    Returns:
        A Tensor `sparse_ids.shape[:-1] + embedding_weights.shape[1:]`.
    """
    ids = as_sparse(sparse_ids)
    weights = None if sparse_weights is None else as_sparse(sparse_weights)
    with name_scope(name, "embedding_lookup"):
        shape = ids.dense_shape
        rank = shape.shape.as_list()[0] if shape.shape.ndims is not None else None
        outer = apply_one("StridedSlice", shape, [0], [-1], [1], begin_mask=1)
        if rank != 2:
            last = apply_one("StridedSlice", shape, [-1], [0], [1], end_mask=1)
            flat = apply_one("ConcatV2", [apply_one("Prod", outer, [0], keep_dims=True), last], 0)
            ids = sparse_reshape(ids, flat)
            weights = None if weights is None else SparseTensor(ids.indices, weights.values, ids.dense_shape)
        open_ids = _is_table(embedding_weights)
        ids, weights = _valid(ids, weights, combiner, open_ids)
        if default_id is None:
            filler: Any = "" if ids.dtype.name == "string" else 0
        else:
            filler = default_id
        ids, empty = sparse_fill_empty_rows(ids, filler)
        if weights is not None:
            weights, _ = sparse_fill_empty_rows(weights, 1.0)
        found = embedding_lookup_sparse(
            embedding_weights, ids, weights, partition_strategy, combiner=combiner, max_norm=max_norm
        )
        if default_id is None:
            found = apply_one("Select", empty, apply_one("ZerosLike", found), found)
        if rank != 2:
            inner = apply_one("StridedSlice", apply_one("Shape", found), [1], [0], [1], end_mask=1)
            sizes = apply_one("ConcatV2", [apply_one("Cast", outer, DstT="int32"), inner], 0)
            row = found.shape[1:]
            found = apply_one("Reshape", found, sizes)
        else:
            row = found.shape[1:]
        found.set_shape(constant_value_as_shape(outer).concatenate(row))
        return found


def _valid(
    ids: SparseTensor, weights: SparseTensor | None, combiner: str, open_ids: bool
) -> tuple[SparseTensor, SparseTensor | None]:
    """The ids that count. Where ids are open, all of them do: there, a negative one is a hash like any other."""
    if open_ids:
        if weights is None or combiner == "sum":
            return ids, weights
        keep = apply_one("Greater", weights.values, np.zeros((), weights.dtype.as_numpy_dtype))
        return sparse_retain(ids, keep), sparse_retain(weights, keep)
    keep = apply_one("GreaterEqual", ids.values, np.zeros((), ids.dtype.as_numpy_dtype))
    if weights is None:
        return sparse_retain(ids, keep), None
    if combiner != "sum":
        keep = apply_one(
            "LogicalAnd", keep, apply_one("Greater", weights.values, np.zeros((), weights.dtype.as_numpy_dtype))
        )
    return sparse_retain(ids, keep), sparse_retain(weights, keep)
