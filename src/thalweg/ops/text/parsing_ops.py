"""Parsing ops: serialized Examples and SequenceExamples to tensors. `parsing.py` has the functions that users call."""

from __future__ import annotations

from collections.abc import Sequence

from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.tensor_shape import TensorShape

_VALUES = "{float, int64, string}"


def _dense_shape(prefix: TensorShape, declared: TensorShape, i: int) -> TensorShape:
    """The shape of a dense feature behind the dimensions of the batch. Its first dimension may be unknown."""
    dims = declared.dims_tuple
    if dims is None or None in dims[1:]:
        raise ValueError(f"dense_shapes[{i}] has unknown rank or unknown inner dimensions: {shapes.short(declared)}")
    return prefix.concatenate(declared)


def _sparse_shapes(rank: int | None, count: int) -> list[TensorShape]:
    """Indices, values and shapes of `count` sparse features of this rank."""
    matrix, vector = TensorShape._of((None, rank)), TensorShape._of((rank,))
    return [matrix] * count + [shapes.ANY_VECTOR] * count + [vector] * count


def _splits_shape(prefix: TensorShape, single: TensorShape) -> TensorShape:
    """One more row split than there are rows; `single` without a batch."""
    dims = prefix.dims_tuple
    if dims is None:
        return shapes.UNKNOWN
    if not dims:
        return single
    return TensorShape._of((None if dims[0] is None else dims[0] + 1,))


def _rank(prefix: TensorShape, more: int) -> int | None:
    return None if prefix.ndims is None else prefix.ndims + more


def _example_shapes(c: ShapeContext, prefix: TensorShape, num_ragged: int = 0) -> list[TensorShape]:
    result = _sparse_shapes(_rank(prefix, 1), len(c.attr("sparse_types")))
    _check_lengths(c.attr("Tdense"), c.attr("dense_shapes"))
    result += [_dense_shape(prefix, shape, i) for i, shape in enumerate(c.attr("dense_shapes"))]
    return result + [shapes.ANY_VECTOR] * num_ragged + [_splits_shape(prefix, TensorShape._of((0,)))] * num_ragged


def _check_lengths(types: Sequence[object], declared: Sequence[object]) -> None:
    if len(types) != len(declared):
        raise ValueError(f"There are {len(types)} types, but {len(declared)} shapes of dense features")


def _parse_example_v2_shape(c: ShapeContext) -> list[TensorShape]:
    prefix = shapes.with_rank_at_most(c.input(0), 1)
    if len(c.attr("ragged_value_types")) != len(c.attr("ragged_split_types")):
        raise ValueError("ragged_value_types and ragged_split_types must have the same length")
    if c.attr("num_sparse") != len(c.attr("sparse_types")):
        raise ValueError(f"num_sparse is {c.attr('num_sparse')}, but sparse_types has {len(c.attr('sparse_types'))}")
    return _example_shapes(c, prefix, len(c.attr("ragged_value_types")))


def _parse_example_shape(c: ShapeContext) -> list[TensorShape]:
    if c.attr("Nsparse") != len(c.attr("sparse_types")):
        raise ValueError(f"Nsparse is {c.attr('Nsparse')}, but sparse_types has {len(c.attr('sparse_types'))}")
    return _example_shapes(c, shapes.with_rank(c.input(0), 1))


def _parse_single_example_shape(c: ShapeContext) -> list[TensorShape]:
    if c.attr("num_sparse") != len(c.attr("sparse_types")):
        raise ValueError(f"num_sparse is {c.attr('num_sparse')}, but sparse_types has {len(c.attr('sparse_types'))}")
    return _example_shapes(c, shapes.with_rank(c.input(0), 0))


_EXAMPLE_TYPES = f"sparse_types: list({_VALUES}) >= 0, Tdense: list({_VALUES}) >= 0, dense_shapes: list(shape) >= 0"
_EXAMPLE_OUTPUTS = "sparse_indices: {n} * int64, sparse_values: sparse_types, sparse_shapes: {n} * int64, "

define(
    "ParseExampleV2",
    "serialized: string, names: string, sparse_keys: string, dense_keys: string, ragged_keys: string, "
    "dense_defaults: Tdense -> " + _EXAMPLE_OUTPUTS.format(n="num_sparse")
    + "dense_values: Tdense, ragged_values: ragged_value_types, ragged_row_splits: ragged_split_types",
    f"Tdense: list({_VALUES}) >= 0, num_sparse: int >= 0, sparse_types: list({_VALUES}) >= 0, "
    f"ragged_value_types: list({_VALUES}) >= 0, ragged_split_types: list({{int32, int64}}) >= 0, "
    "dense_shapes: list(shape) >= 0",
    shape=_parse_example_v2_shape,
)  # fmt: skip
define(
    "ParseExample",
    "serialized: string, names: string, sparse_keys: Nsparse * string, dense_keys: Ndense * string, "
    "dense_defaults: Tdense -> " + _EXAMPLE_OUTPUTS.format(n="Nsparse") + "dense_values: Tdense",
    f"Nsparse: int >= 0, Ndense: int >= 0, {_EXAMPLE_TYPES}",
    shape=_parse_example_shape,
)
define(
    "ParseSingleExample",
    "serialized: string, dense_defaults: Tdense -> " + _EXAMPLE_OUTPUTS.format(n="num_sparse")
    + "dense_values: Tdense",
    f"num_sparse: int >= 0, sparse_keys: list(string) >= 0, dense_keys: list(string) >= 0, {_EXAMPLE_TYPES}",
    shape=_parse_single_example_shape,
)  # fmt: skip


def _sequence_shapes(c: ShapeContext, prefix: TensorShape, lengths: bool, ragged: bool) -> list[TensorShape]:
    """Context features, then feature lists, which have one dimension more: the steps."""
    for half in ("context", "feature_list"):
        for shape in c.attr(f"{half}_dense_shapes"):
            if not shape.is_fully_defined():
                raise ValueError(f"Shape {shapes.short(shape)} is not fully defined")
    _check_lengths(c.attr("Tcontext_dense"), c.attr("context_dense_shapes"))
    _check_lengths(c.attr("feature_list_dense_types"), c.attr("feature_list_dense_shapes"))
    for half in ("context", "feature_list"):
        if c.attr(f"N{half}_sparse") != len(c.attr(f"{half}_sparse_types")):
            raise ValueError(f"N{half}_sparse and {half}_sparse_types do not agree")
        if ragged and len(c.attr(f"{half}_ragged_value_types")) != len(c.attr(f"{half}_ragged_split_types")):
            raise ValueError(f"{half}_ragged_value_types and {half}_ragged_split_types do not agree")
    if lengths and c.attr("Nfeature_list_dense") != len(c.attr("feature_list_dense_types")):
        raise ValueError("Nfeature_list_dense and feature_list_dense_types do not agree")
    result = _sparse_shapes(_rank(prefix, 1), c.attr("Ncontext_sparse"))
    result += [prefix.concatenate(shape) for shape in c.attr("context_dense_shapes")]
    splits = _splits_shape(prefix, shapes.SCALAR)
    if ragged:
        count = len(c.attr("context_ragged_value_types"))
        result += [shapes.ANY_VECTOR] * count + [splits] * count
    result += _sparse_shapes(_rank(prefix, 2), c.attr("Nfeature_list_sparse"))
    listed = prefix.concatenate(shapes.ANY_VECTOR)
    result += [listed.concatenate(shape) for shape in c.attr("feature_list_dense_shapes")]
    if lengths:
        result += [prefix] * len(c.attr("feature_list_dense_shapes"))
    if ragged:
        count = len(c.attr("feature_list_ragged_value_types"))
        result += [shapes.ANY_VECTOR] * count + [splits] * count + [shapes.ANY_VECTOR] * count
    return result


def _parse_sequence_example_shape(c: ShapeContext) -> list[TensorShape]:
    return _sequence_shapes(c, shapes.with_rank_at_most(c.input(0), 1), lengths=True, ragged=False)


def _parse_sequence_example_v2_shape(c: ShapeContext) -> list[TensorShape]:
    return _sequence_shapes(c, shapes.with_rank_at_most(c.input(0), 1), lengths=True, ragged=True)


def _parse_single_sequence_example_shape(c: ShapeContext) -> list[TensorShape]:
    return _sequence_shapes(c, shapes.with_rank(c.input(0), 0), lengths=False, ragged=False)


_CONTEXT_OUTPUTS = (
    "context_sparse_indices: Ncontext_sparse * int64, context_sparse_values: context_sparse_types, "
    "context_sparse_shapes: Ncontext_sparse * int64, context_dense_values: Tcontext_dense, "
)
_LIST_OUTPUTS = (
    "feature_list_sparse_indices: Nfeature_list_sparse * int64, feature_list_sparse_values: feature_list_sparse_types, "
    "feature_list_sparse_shapes: Nfeature_list_sparse * int64, feature_list_dense_values: feature_list_dense_types"
)
_LENGTHS = ", feature_list_dense_lengths: Nfeature_list_dense * int64"
_SEQUENCE_TYPES = (
    f"context_sparse_types: list({_VALUES}) >= 0 = [], Tcontext_dense: list({_VALUES}) >= 0 = [], "
    f"feature_list_dense_types: list({_VALUES}) >= 0 = [], context_dense_shapes: list(shape) >= 0 = [], "
    f"feature_list_sparse_types: list({_VALUES}) >= 0 = [], feature_list_dense_shapes: list(shape) >= 0 = []"
)
_SEQUENCE_COUNTS = (
    "Ncontext_sparse: int >= 0 = 0, Ncontext_dense: int >= 0 = 0, Nfeature_list_sparse: int >= 0 = 0, "
    "Nfeature_list_dense: int >= 0 = 0"
)

define(
    "ParseSequenceExample",
    "serialized: string, debug_name: string, context_dense_defaults: Tcontext_dense -> "
    + _CONTEXT_OUTPUTS + _LIST_OUTPUTS + _LENGTHS,
    "feature_list_dense_missing_assumed_empty: list(string) >= 0, context_sparse_keys: list(string) >= 0, "
    "context_dense_keys: list(string) >= 0, feature_list_sparse_keys: list(string) >= 0, "
    f"feature_list_dense_keys: list(string) >= 0, {_SEQUENCE_COUNTS}, {_SEQUENCE_TYPES}",
    shape=_parse_sequence_example_shape,
)  # fmt: skip
define(
    "ParseSequenceExampleV2",
    "serialized: string, debug_name: string, context_sparse_keys: string, context_dense_keys: string, "
    "context_ragged_keys: string, feature_list_sparse_keys: string, feature_list_dense_keys: string, "
    "feature_list_ragged_keys: string, feature_list_dense_missing_assumed_empty: bool, "
    "context_dense_defaults: Tcontext_dense -> " + _CONTEXT_OUTPUTS
    + "context_ragged_values: context_ragged_value_types, context_ragged_row_splits: context_ragged_split_types, "
    + _LIST_OUTPUTS + _LENGTHS + ", feature_list_ragged_values: feature_list_ragged_value_types, "
    "feature_list_ragged_outer_splits: feature_list_ragged_split_types, "
    "feature_list_ragged_inner_splits: feature_list_ragged_split_types",
    f"Ncontext_sparse: int >= 0 = 0, Tcontext_dense: list({_VALUES}) >= 0 = [], "
    f"context_sparse_types: list({_VALUES}) >= 0 = [], context_ragged_value_types: list({_VALUES}) >= 0 = [], "
    "context_ragged_split_types: list({int32, int64}) >= 0 = [], context_dense_shapes: list(shape) >= 0 = [], "
    "Nfeature_list_sparse: int >= 0 = 0, Nfeature_list_dense: int >= 0 = 0, "
    f"feature_list_dense_types: list({_VALUES}) >= 0 = [], feature_list_sparse_types: list({_VALUES}) >= 0 = [], "
    f"feature_list_ragged_value_types: list({_VALUES}) >= 0 = [], "
    "feature_list_ragged_split_types: list({int32, int64}) >= 0 = [], feature_list_dense_shapes: list(shape) >= 0 = []",
    shape=_parse_sequence_example_v2_shape,
)  # fmt: skip
define(
    "ParseSingleSequenceExample",
    "serialized: string, feature_list_dense_missing_assumed_empty: string, context_sparse_keys: "
    "Ncontext_sparse * string, context_dense_keys: Ncontext_dense * string, feature_list_sparse_keys: "
    "Nfeature_list_sparse * string, feature_list_dense_keys: Nfeature_list_dense * string, "
    "context_dense_defaults: Tcontext_dense, debug_name: string -> " + _CONTEXT_OUTPUTS + _LIST_OUTPUTS,
    f"{_SEQUENCE_COUNTS}, {_SEQUENCE_TYPES}",
    shape=_parse_single_sequence_example_shape,
)
not_differentiable(
    "ParseExample", "ParseExampleV2", "ParseSingleExample", "ParseSequenceExample", "ParseSequenceExampleV2",
    "ParseSingleSequenceExample",
)  # fmt: skip
